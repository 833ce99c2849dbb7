// Products with weights of fp8 that are widened, against a table of all numbers of e4m3 and sums in
// double. Runs on a device and on the emulated one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "kernels/cuda/widening_gemm.h"
#include "tests/unit/kernels_cuda/test_fp8.h"
#include "tests/unit/kernels_cuda/test_rows.h"
#include "tests/unit/kernels_cuda/widening_products.h"

namespace twin::kernels::cuda {
namespace {

using CudaFp8GemmTest = DeviceRowsTest;

constexpr std::uint8_t kNan = 0x7F;

std::int64_t StrideOf(std::int64_t columns) {
  return (columns + kFp8Pack - 1) / kFp8Pack * kFp8Pack;
}

// Weights on host and device. Behind the end of each row are NaNs: padding counts for nothing.
class TestFp8 {
 public:
  // Any finite numbers of e4m3, with scales of 2^-10 to 2^-6.
  TestFp8(std::int64_t rows, std::int64_t columns)
      : TestFp8(rows, columns, RandomBytes(rows, columns), RandomScales(rows)) {}
  // `bytes` without padding.
  TestFp8(std::int64_t rows, std::int64_t columns, std::vector<std::uint8_t> bytes,
          std::vector<float> scales)
      : rows_(rows),
        columns_(columns),
        bytes_(std::move(bytes)),
        scales_(std::move(scales)),
        values_on_device_(static_cast<std::size_t>(rows * StrideOf(columns))),
        scales_on_device_(scales_) {
    std::vector<std::uint8_t> padded(static_cast<std::size_t>(rows * StrideOf(columns)), kNan);
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::int64_t k = 0; k < columns; ++k) {
        padded[static_cast<std::size_t>(n * StrideOf(columns) + k)] = Byte(n, k);
      }
    }
    values_on_device_.Set(padded);
  }

  [[nodiscard]] ScaledMatrix matrix() const {
    return {{reinterpret_cast<std::byte*>(values_on_device_.data()), DType::kFp8, rows_, columns_,
             StrideOf(columns_)},
            scales_on_device_.data()};
  }
  [[nodiscard]] double Weight(std::int64_t n, std::int64_t k) const {
    return double{Fp8ToFloat(Byte(n, k))} * double{scales_[static_cast<std::size_t>(n)]};
  }

 private:
  static std::vector<std::uint8_t> RandomBytes(std::int64_t rows, std::int64_t columns) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto bits = static_cast<std::uint8_t>(MixWords(i, 1));
      bytes[i] = (bits & kNan) == kNan ? std::uint8_t{0x80} : bits;
    }
    return bytes;
  }
  static std::vector<float> RandomScales(std::int64_t rows) {
    std::vector<float> scales(static_cast<std::size_t>(rows));
    for (std::size_t n = 0; n < scales.size(); ++n) {
      const auto fraction = static_cast<float>(MixWords(n, 2) % 1000);
      scales[n] = std::ldexp(1 + fraction / 1000, -10 + static_cast<int>(n % 4));
    }
    return scales;
  }
  [[nodiscard]] std::uint8_t Byte(std::int64_t n, std::int64_t k) const {
    return bytes_[static_cast<std::size_t>(n * columns_ + k)];
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<std::uint8_t> bytes_;
  std::vector<float> scales_;
  OnDevice<std::uint8_t> values_on_device_;
  OnDevice<float> scales_on_device_;
};

struct Size {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

// Fewer rows than a block takes, half a pack, a pack and a half, several turns of all threads.
constexpr Size kSizes[] = {{1, 8}, {3, 24}, {33, 128}, {5, 4136}, {9, 360}, {4, 2064}};

// What a sum of `inputs` addends may lose, as a share of the sum of their magnitudes. Products of
// 8 and 4 bits are exact in fp32. A thread adds 16 of them in every turn of 2,048 columns, then 32
// lanes are added in 5 steps and 4 warps in 4, then the scale is applied; each step rounds by at
// most 2^-24. Squares of that are below the 1 percent that is added.
double LossOf(std::int64_t inputs) {
  constexpr std::int64_t kTurn = 2048;
  const std::int64_t turns = (inputs + kTurn - 1) / kTurn;
  return 1.01 * 0x1p-24 * static_cast<double>(16 * turns + 5 + 4 + 1);
}

void ExpectProduct(const TestRows& x, const TestFp8& w, TestRows& y) {
  y.Fetch();
  const double rounding = 0.5 * double{UlpOf(y.matrix().dtype)};
  for (std::int64_t t = 0; t < y.rows(); ++t) {
    for (std::int64_t n = 0; n < y.columns(); ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < x.columns(); ++k) {
        sum += double{x.At(t, k)} * w.Weight(n, k);
        magnitude += std::abs(double{x.At(t, k)} * w.Weight(n, k));
      }
      const double loss = LossOf(x.columns()) * magnitude;
      ASSERT_NEAR(y.At(t, n), sum, loss + rounding * (std::abs(sum) + loss))
          << "row " << t << ", column " << n << " of " << x.columns() << " inputs";
    }
  }
}

TEST_F(CudaFp8GemmTest, AgreesWithSumsInDouble) {
  for (const Size& size : kSizes) {
    const TestFp8 w(size.outputs, size.inputs);
    for (const DType output : {DType::kFp32, DType::kBf16}) {
      for (const std::int64_t tokens : {1, 2, 3, 5, 8, 9, 16}) {
        TestRows x(DType::kBf16, tokens, size.inputs, 8);
        TestRows y(output, tokens, size.outputs, 1);
        x.Draw(random_);
        ASSERT_TRUE(TakesWideningGemm(x.matrix(), w.matrix(), y.matrix()));
        WideningGemm(stream_.view(), x.matrix(), w.matrix(), y.matrix());
        ExpectProduct(x, w, y);
      }
    }
  }
}

TEST_F(CudaFp8GemmTest, ARowIsTheSameAloneAndWithOthers) {
  const TestFp8 w(33, 4136);
  ExpectTheSameRowsAloneAndTogether(w.matrix(), 33, 4136, DType::kBf16, random_);
}

TEST_F(CudaFp8GemmTest, WidensEveryWeightToTheNearest) {
  for (const Size& size : kSizes) {
    for (const std::int64_t gap : {0, 1, 8}) {
      const TestFp8 w(size.outputs, size.inputs);
      TestRows wide(DType::kBf16, size.outputs, size.inputs, gap);
      Widen(stream_.view(), w.matrix(), wide.matrix());
      wide.Expect([&](auto n, auto k) { return w.Weight(n, k); }, 0.51, 0);
    }
  }
}

// All 256 numbers, one row for each, in a matrix whose first column they are.
TestFp8 AllNumbers() {
  constexpr std::int64_t kColumns = 8;
  std::vector<std::uint8_t> bytes(256 * kColumns, 0);
  for (std::size_t n = 0; n < 256; ++n) bytes[n * kColumns] = static_cast<std::uint8_t>(n);
  return {256, kColumns, bytes, std::vector<float>(256, 1)};
}

void ExpectNumber(float found, std::int64_t n) {
  const float expected = Fp8ToFloat(static_cast<std::uint8_t>(n));
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << "byte " << n;
  } else {
    EXPECT_EQ(found, expected) << "byte " << n;
  }
}

TEST_F(CudaFp8GemmTest, WidensAllNumbersExactly) {
  const TestFp8 w = AllNumbers();
  TestRows wide(DType::kBf16, 256, 8);
  Widen(stream_.view(), w.matrix(), wide.matrix());
  wide.Fetch();
  for (std::int64_t n = 0; n < 256; ++n) ExpectNumber(wide.At(n, 0), n);
}

TEST_F(CudaFp8GemmTest, MultipliesByAllNumbersExactly) {
  const TestFp8 w = AllNumbers();
  TestRows x(DType::kBf16, 1, 8);
  for (std::int64_t k = 0; k < 8; ++k) x.Set(0, k, 1);
  x.Send();
  TestRows y(DType::kBf16, 1, 256);
  WideningGemm(stream_.view(), x.matrix(), w.matrix(), y.matrix());
  y.Fetch();
  for (std::int64_t n = 0; n < 256; ++n) ExpectNumber(y.At(0, n), n);
}

TEST_F(CudaFp8GemmTest, RefusesWhatItCannotLoadInPacks) {
  ExpectPackedInputs(TestFp8(4, 16).matrix(), 4, DType::kBf16);
}

}  // namespace
}  // namespace twin::kernels::cuda
