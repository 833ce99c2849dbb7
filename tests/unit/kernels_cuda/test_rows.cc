#include "tests/unit/kernels_cuda/test_rows.h"

#include <cmath>
#include <cstring>

#include "core/check.h"
#include "kernels/float_formats.h"

namespace twin::kernels::cuda {
namespace {

float Read(const std::byte* place, DType dtype) {
  if (dtype == DType::kFp32) {
    float value = 0;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  return Bf16ToFloat(bits);
}

void Write(float value, DType dtype, std::byte* place) {
  if (dtype == DType::kFp32) {
    std::memcpy(place, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = FloatToBf16(value);
  std::memcpy(place, &bits, sizeof(bits));
}

}  // namespace

float UlpOf(DType dtype) { return dtype == DType::kBf16 ? 0x1p-7F : 0x1p-23F; }

TestRows::TestRows(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap)
    : dtype_(dtype),
      rows_(rows),
      columns_(columns),
      stride_(columns + gap),
      host_(static_cast<std::size_t>(rows * stride_ * ByteSize(dtype)), std::byte{0xFF}),
      device_(host_.size()) {}

std::byte* TestRows::Place(std::int64_t row, std::int64_t column) {
  return host_.data() + (row * stride_ + column) * ByteSize(dtype_);
}

const std::byte* TestRows::Place(std::int64_t row, std::int64_t column) const {
  return host_.data() + (row * stride_ + column) * ByteSize(dtype_);
}

void TestRows::Draw(Random& random, double deviation, double mean) {
  for (std::int64_t i = 0; i < rows_; ++i) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      Set(i, j, static_cast<float>(mean + deviation * random.Normal()));
    }
  }
  Send();
}

void TestRows::Set(std::int64_t row, std::int64_t column, float value) {
  Write(value, dtype_, Place(row, column));
}

void TestRows::Send() { device_.Set(host_); }

void TestRows::Fetch() { host_ = device_.Get(); }

DeviceMatrix TestRows::matrix() const { return {device_.data(), dtype_, rows_, columns_, stride_}; }

float TestRows::At(std::int64_t row, std::int64_t column) const {
  return Read(Place(row, column), dtype_);
}

std::vector<float> TestRows::Values() const {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows_; ++i) {
    for (std::int64_t j = 0; j < columns_; ++j) values.push_back(At(i, j));
  }
  return values;
}

void TestRows::Expect(const std::function<double(std::int64_t, std::int64_t)>& expected,
                      double ulps, double absolute) {
  Fetch();
  for (std::int64_t i = 0; i < rows_; ++i) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      const double wanted = expected(i, j);
      const double allowed = ulps * UlpOf(dtype_) * std::abs(wanted) + absolute;
      ASSERT_NEAR(At(i, j), wanted, allowed) << "row " << i << " of " << rows_ << ", column " << j
                                             << " of " << columns_ << ", " << Name(dtype_);
    }
    for (std::int64_t j = columns_; j < stride_; ++j) {
      ASSERT_TRUE(std::isnan(At(i, j))) << "behind row " << i << " at column " << j;
    }
  }
}

std::vector<float> RandomNumbersOf(Random& random, std::int64_t count, double deviation) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(deviation * random.Normal());
  return values;
}

}  // namespace twin::kernels::cuda
