#include "kernels/weight_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/float_formats.h"
#include "tests/unit/kernels/kernel_cases.h"
#include "tests/unit/kernels/random_int4.h"

namespace twin::kernels {
namespace {

std::vector<float> RowOf(const WeightMatrix& matrix, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(matrix.view().columns));
  matrix.view().CopyRow(row, values.data());
  return values;
}

WeightSource SourceOf(const std::vector<float>& values, std::int64_t columns) {
  return {.data = reinterpret_cast<const std::byte*>(values.data()),
          .rows = static_cast<std::int64_t>(values.size()) / columns,
          .row_stride = columns};
}

// Bit patterns of IEEE 754 binary16: sign, 5 bits of exponent, 10 bits of fraction.
TEST(FloatFormatsTest, WidensHalfPrecisionExactly) {
  EXPECT_EQ(Fp16ToFloat(0x3C00), 1.0F);
  EXPECT_EQ(Fp16ToFloat(0xC000), -2.0F);
  EXPECT_EQ(Fp16ToFloat(0x7BFF), 65504.0F);
  EXPECT_EQ(Fp16ToFloat(0x0001), 0x1p-24F);
  EXPECT_EQ(Fp16ToFloat(0x83FF), -0x3FFp-24F);
  EXPECT_EQ(Fp16ToFloat(0x7C00), INFINITY);
  EXPECT_TRUE(std::isnan(Fp16ToFloat(0x7E00)));
  EXPECT_TRUE(std::signbit(Fp16ToFloat(0x8000)));
}

// A bf16 has 8 significant bits: 1 + 2^-8 lies half-way between 1 and 1 + 2^-7, both even and odd.
TEST(FloatFormatsTest, RoundsToNearestEvenBf16) {
  EXPECT_EQ(FloatToBf16(1.0F), 0x3F80);
  EXPECT_EQ(FloatToBf16(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(FloatToBf16(1.0F + 0x1p-8F + 0x1p-20F), 0x3F81);
  EXPECT_EQ(FloatToBf16(1.0F + 0x3p-8F), 0x3F82);
  EXPECT_EQ(FloatToBf16(3.4e38F), 0x7F80);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(WeightMatrixTest, Fp32ReturnsItsRowsExactlyWhateverTheShape) {
  ThreadPool pool(2);
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {31, 5}, {32, 257}, {33, 64}, {100, 300}}) {
    const std::vector<float> values = RandomFloats("weights", rows * columns);
    WeightMatrix matrix(DType::kFp32, rows, columns);
    matrix.Fill(pool, 0, SourceOf(values, columns));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto first = values.begin() + row * columns;
      EXPECT_EQ(RowOf(matrix, row), std::vector<float>(first, first + columns));
    }
  }
}

TEST(WeightMatrixTest, SourcesAreStackedAndMayBeTransposed) {
  ThreadPool pool(1);
  const std::vector<float> upper = {1, 2, 3, 4, 5, 6};      // [2, 3]
  const std::vector<float> turned = {7, 10, 8, 11, 9, 12};  // [3, 2]: rows 7 8 9 and 10 11 12
  WeightMatrix matrix(DType::kFp32, 4, 3);
  matrix.Fill(pool, 0, SourceOf(upper, 3));
  matrix.Fill(pool, 2,
              {.data = reinterpret_cast<const std::byte*>(turned.data()),
               .rows = 2,
               .row_stride = 1,
               .column_stride = 2});
  EXPECT_EQ(RowOf(matrix, 1), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(RowOf(matrix, 2), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(RowOf(matrix, 3), (std::vector<float>{10, 11, 12}));
}

TEST(WeightMatrixTest, ReadsSixteenBitSourcesAtAnyAddress) {
  ThreadPool pool(1);
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x0001};
  const std::vector<std::uint16_t> brains = {0x3F80, 0xC000, 0x4049};
  std::vector<std::byte> bytes(7);
  WeightMatrix matrix(DType::kFp32, 2, 3);
  std::memcpy(bytes.data() + 1, halves.data(), 6);
  matrix.Fill(pool, 0,
              {.data = bytes.data() + 1, .dtype = DType::kFp16, .rows = 1, .row_stride = 3});
  std::memcpy(bytes.data() + 1, brains.data(), 6);
  matrix.Fill(pool, 1,
              {.data = bytes.data() + 1, .dtype = DType::kBf16, .rows = 1, .row_stride = 3});
  EXPECT_EQ(RowOf(matrix, 0), (std::vector<float>{1, -2, 0x1p-24F}));
  EXPECT_EQ(RowOf(matrix, 1), (std::vector<float>{1, -2, 3.140625F}));
}

TEST(WeightMatrixTest, Bf16HoldsTheNearestValues) {
  ThreadPool pool(2);
  const std::vector<float> values = RandomFloats("weights", 40 * 33);
  WeightMatrix matrix(DType::kBf16, 40, 33);
  matrix.Fill(pool, 0, SourceOf(values, 33));
  for (std::int64_t row = 0; row < 40; ++row) {
    const std::vector<float> stored = RowOf(matrix, row);
    for (std::size_t k = 0; k < 33; ++k) {
      EXPECT_EQ(stored[k],
                Bf16ToFloat(FloatToBf16(values[static_cast<std::size_t>(row) * 33 + k])));
    }
  }
}

// A group's scale is at most its largest weight / 127, rounded up by less than 2^-7; the error is
// half a scale.
TEST(WeightMatrixTest, Int8IsWithinHalfAScaleOfItsGroup) {
  ThreadPool pool(2);
  constexpr std::int64_t kColumns = 70;
  const std::vector<float> values = RandomFloats("weights", 40 * kColumns, 3);
  WeightMatrix matrix(DType::kInt8, 40, kColumns);
  matrix.Fill(pool, 0, SourceOf(values, kColumns));
  for (std::int64_t row = 0; row < 40; ++row) {
    const std::vector<float> stored = RowOf(matrix, row);
    for (std::int64_t start = 0; start < kColumns; start += 32) {
      const std::int64_t end = std::min(kColumns, start + 32);
      float largest = 0;
      for (std::int64_t k = start; k < end; ++k) {
        largest = std::max(largest, std::abs(values[static_cast<std::size_t>(row * kColumns + k)]));
      }
      for (std::int64_t k = start; k < end; ++k) {
        EXPECT_NEAR(stored[static_cast<std::size_t>(k)],
                    values[static_cast<std::size_t>(row * kColumns + k)],
                    largest / 127 * (1 + 0x1p-7F) / 2 * 1.0001F);
      }
    }
  }
}

TEST(WeightMatrixTest, AGroupOfZerosStaysZeroInInt8) {
  ThreadPool pool(1);
  WeightMatrix matrix(DType::kInt8, 1, 40);
  std::vector<float> values(40, 0.0F);
  values[35] = -5;
  matrix.Fill(pool, 0, SourceOf(values, 40));
  const std::vector<float> stored = RowOf(matrix, 0);
  EXPECT_EQ(stored[0], 0);
  EXPECT_NEAR(stored[35], -5, 5.0 / 254);
}

TEST(WeightMatrixTest, TakesInt4AsItIsStored) {
  ThreadPool pool(2);
  // 70 columns in groups of 32, behind 5 rows of another source: the panel is shared.
  const RandomInt4 upper(5, 70, 32);
  const RandomInt4 lower(40, 70, 32);
  WeightMatrix matrix = WeightMatrix::Int4(45, 70, 32, {});
  matrix.FillInt4(pool, 0, upper);
  matrix.FillInt4(pool, 5, lower);
  for (std::int64_t row = 0; row < 45; ++row) {
    const std::vector<float> stored = RowOf(matrix, row);
    for (std::int64_t k = 0; k < 70; ++k) {
      const double exact = row < 5 ? upper.Weight(row, k) : lower.Weight(row - 5, k);
      ASSERT_EQ(double{stored[static_cast<std::size_t>(k)]}, exact) << row << " " << k;
    }
  }
}

TEST(WeightMatrixTest, AnOrderSaysWhichInputAColumnIs) {
  ThreadPool pool(1);
  const RandomInt4 source(3, 40, 32);
  std::vector<std::int32_t> order;
  for (std::int32_t k = 0; k < 40; ++k) order.push_back(39 - k);
  WeightMatrix matrix = WeightMatrix::Int4(3, 40, 32, order);
  matrix.FillInt4(pool, 0, source);
  EXPECT_EQ(double{RowOf(matrix, 1)[39]}, source.Weight(1, 0));
  EXPECT_EQ(double{RowOf(matrix, 2)[4]}, source.Weight(2, 35));
}

// A group's 16 steps span its smallest to its largest weight, and zero; the scale is rounded up by
// less than 2^-7. The zero point's rounding moves a weight by half a step, its own by another half.
TEST(WeightMatrixTest, Int4IsWithinAStepOfItsGroup) {
  ThreadPool pool(2);
  constexpr std::int64_t kColumns = 300;
  const std::vector<float> values = RandomFloats("weights", 40 * kColumns, 3);
  WeightMatrix matrix(DType::kInt4, 40, kColumns);
  matrix.Fill(pool, 0, SourceOf(values, kColumns));
  double squares = 0;
  for (std::int64_t row = 0; row < 40; ++row) {
    const std::vector<float> stored = RowOf(matrix, row);
    for (std::int64_t start = 0; start < kColumns; start += 128) {
      const auto begin = values.begin() + row * kColumns + start;
      const auto end = begin + std::min<std::int64_t>(128, kColumns - start);
      const float span = std::max(0.0F, *std::max_element(begin, end)) -
                         std::min(0.0F, *std::min_element(begin, end));
      const float step = span / 15 * (1 + 0x1p-7F);
      for (auto value = begin; value != end; ++value) {
        const auto k = static_cast<std::size_t>(start + (value - begin));
        ASSERT_NEAR(stored[k], *value, step * 1.001F);
        const double error = double{stored[k] - *value} / double{step};
        squares += error * error;
      }
    }
  }
  // Rounding is uniform: 1/12 of a squared step, and a little where the zero point cuts the ends.
  EXPECT_NEAR(squares / (40.0 * kColumns), 1.0 / 12, 0.01);
}

// Half a byte a weight; of each group of 128, a scale of 4 bytes and a zero point of one.
TEST(WeightMatrixTest, TakesHalfAByteAndAGroupsScalePerInt4Weight) {
  EXPECT_EQ(WeightMatrix(DType::kInt4, 64, 256).bytes(), 64 * 256 / 2 + 64 * 2 * 5);
}

TEST(WeightMatrixTest, TakesOneByteAndASixteenthPerInt8Weight) {
  EXPECT_EQ(WeightMatrix(DType::kInt8, 64, 128).bytes(), 64 * 128 + 64 * 128 / 16);
  EXPECT_EQ(WeightMatrix(DType::kBf16, 64, 128).bytes(), 64 * 128 * 2);
}

}  // namespace
}  // namespace twin::kernels
