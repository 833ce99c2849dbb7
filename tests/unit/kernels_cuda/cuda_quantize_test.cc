// Rows in fp8 against a table of all numbers of e4m3. Runs on a device and on the emulated one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/quantize.h"
#include "tests/unit/kernels_cuda/test_fp8.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using CudaQuantizeTest = DeviceRowsTest;

// On the device, with bytes that are no zeros wherever nothing is written.
struct Quantized {
  Quantized(std::int64_t row_count, std::int64_t columns, std::int64_t gap)
      : rows(row_count),
        width(columns),
        stride(columns + gap),
        values(static_cast<std::size_t>(row_count * stride)),
        scales(static_cast<std::size_t>(row_count)) {}

  [[nodiscard]] ScaledMatrix matrix() const {
    return {{reinterpret_cast<std::byte*>(values.data()), DType::kFp8, rows, width, stride},
            scales.data()};
  }

  std::int64_t rows;
  std::int64_t width;
  std::int64_t stride;
  OnDevice<std::uint8_t> values;
  OnDevice<float> scales;
};

void ExpectQuantized(const TestRows& x, const Quantized& y) {
  const std::vector<std::uint8_t> bytes = y.values.Get();
  const std::vector<float> scales = y.scales.Get();
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    float largest = kQuantizedMin;
    for (std::int64_t k = 0; k < x.columns(); ++k) {
      largest = std::max(largest, std::abs(x.At(t, k)));
    }
    ASSERT_EQ(scales[static_cast<std::size_t>(t)], largest / 448) << "row " << t;
    for (std::int64_t k = 0; k < y.stride; ++k) {
      const std::uint8_t found = bytes[static_cast<std::size_t>(t * y.stride + k)];
      const std::uint8_t expected = k >= y.width       ? 0xFF
                                    : k >= x.columns() ? 0
                                                       : NearestFp8(x.At(t, k) * (448 / largest));
      ASSERT_EQ(int{found}, int{expected}) << "row " << t << ", column " << k;
    }
  }
}

struct Size {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t padding = 0;
  std::int64_t gap = 0;
};

// Whole packs, packs and padding, rows that no pack fits, one warp, all threads, several turns.
constexpr Size kSizes[] = {{3, 64, 0, 0},   {2, 40, 8, 16},   {5, 7, 9, 0},
                           {2, 33, 0, 15},  {4, 1, 15, 3},    {1, 8192, 0, 0},
                           {2, 9000, 8, 0}, {1, 17000, 8, 0}, {2, 2051, 13, 0}};

TEST_F(CudaQuantizeTest, RowsAreTheNearestNumbersOfTheirScale) {
  for (const Size& size : kSizes) {
    TestRows x(DType::kBf16, size.rows, size.columns, 8);
    x.Draw(random_, 3);
    const Quantized y(size.rows, size.columns + size.padding, size.gap);
    QuantizeRows(stream_.view(), x.matrix(), y.matrix());
    ExpectQuantized(x, y);
  }
}

// Halfway between two numbers, below the smallest one, the largest itself.
TEST_F(CudaQuantizeTest, TiesGoToTheEvenNumber) {
  TestRows x(DType::kBf16, 1, 16);
  const float values[] = {448,     -448,          17,      19,       -17,          27,
                          29,      432,           0x1p-9F, 0x1p-10F, 3 * 0x1p-10F, -0x1p-9F,
                          0x1p-6F, 15 * 0x1p-10F, 0,       -0.0F};
  for (std::int64_t k = 0; k < 16; ++k) x.Set(0, k, values[k]);
  x.Send();
  const Quantized y(1, 16, 0);
  QuantizeRows(stream_.view(), x.matrix(), y.matrix());
  ExpectQuantized(x, y);
  // 17 is halfway between 16 (0x58) and 18 (0x59), 19 between 18 and 20 (0x5A), 2^-10 between 0 and
  // 2^-9.
  const std::vector<std::uint8_t> bytes = y.values.Get();
  EXPECT_EQ(bytes[0], 0x7E);
  EXPECT_EQ(bytes[1], 0xFE);
  EXPECT_EQ(bytes[2], 0x58);
  EXPECT_EQ(bytes[3], 0x5A);
  EXPECT_EQ(bytes[4], 0xD8);
  EXPECT_EQ(bytes[8], 0x01);
  EXPECT_EQ(bytes[9], 0x00);
  EXPECT_EQ(bytes[10], 0x02);
}

TEST_F(CudaQuantizeTest, ARowOfZerosHasASmallScale) {
  TestRows x(DType::kBf16, 2, 24);
  for (std::int64_t k = 0; k < 24; ++k) {
    x.Set(0, k, 0);
    x.Set(1, k, 1);
  }
  x.Send();
  const Quantized y(2, 32, 0);
  QuantizeRows(stream_.view(), x.matrix(), y.matrix());
  EXPECT_EQ(y.scales.Get(), (std::vector{0x1p-100F / 448, 1.0F / 448}));
  ExpectQuantized(x, y);
}

TEST_F(CudaQuantizeTest, NumbersThatAreNotFiniteShow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  TestRows x(DType::kBf16, 2, 16);
  for (std::int64_t k = 0; k < 16; ++k) {
    x.Set(0, k, k == 3 ? std::numeric_limits<float>::quiet_NaN() : 2);
    x.Set(1, k, k == 3 ? kInfinity : 2);
  }
  x.Send();
  const Quantized y(2, 16, 0);
  QuantizeRows(stream_.view(), x.matrix(), y.matrix());
  const std::vector<std::uint8_t> bytes = y.values.Get();
  const std::vector<float> scales = y.scales.Get();
  EXPECT_TRUE(std::isnan(Fp8ToFloat(bytes[3])));
  EXPECT_EQ(Fp8ToFloat(bytes[4]) * scales[0], 2);
  EXPECT_EQ(scales[1], kInfinity);
  EXPECT_TRUE(std::isnan(Fp8ToFloat(bytes[16 + 4]) * scales[1]));
}

TEST(CudaQuantizeShapesTest, NoRowsAreNothing) {
  const TestStream stream;
  QuantizeRows(stream.view(), DenseDeviceMatrix(nullptr, DType::kBf16, 0, 16),
               {DenseDeviceMatrix(nullptr, DType::kFp8, 0, 16)});
  stream.Wait();
}

}  // namespace
}  // namespace twin::kernels::cuda
