#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#include "kernels/float_formats.h"
#include "tests/unit/kernels/kernel_cases.h"
#include "tests/unit/kernels/random_int4.h"

namespace twin::kernels {
namespace {

WeightMatrix RandomWeights(DType format, std::int64_t rows, std::int64_t columns) {
  ThreadPool pool(1);
  const std::vector<float> values = RandomFloats("weights", rows * columns);
  WeightMatrix weights(format, rows, columns);
  weights.Fill(pool, 0,
               {.data = reinterpret_cast<const std::byte*>(values.data()),
                .rows = rows,
                .row_stride = columns});
  return weights;
}

struct Shape {
  std::int64_t tokens, outputs, inputs;
};

class GemmTest : public testing::TestWithParam<std::tuple<InstructionSet, DType>> {
 protected:
  [[nodiscard]] static InstructionSet Set() { return std::get<0>(GetParam()); }
  [[nodiscard]] static DType Format() { return std::get<1>(GetParam()); }
  [[nodiscard]] static bool InPairs() {
    return Set() == InstructionSet::kAvx512Bf16 && Format() == DType::kBf16;
  }
};

// Against double precision over the packed weights, within `tolerance` times the sum of sizes.
void ExpectExact(const TestMatrix& x, const WeightMatrix& w, const GemmOptions& options,
                 const std::vector<float>& before, const TestMatrix& y, double tolerance) {
  std::vector<float> row(static_cast<std::size_t>(w.view().columns));
  for (std::int64_t n = 0; n < w.view().rows; ++n) {
    w.view().CopyRow(n, row.data());
    for (std::int64_t t = 0; t < x.view.rows; ++t) {
      double start = options.bias.empty() ? 0 : options.bias[static_cast<std::size_t>(n)];
      if (options.accumulate) start += before[static_cast<std::size_t>(t * y.view.stride + n)];
      double exact = start;
      double size = std::abs(start);
      for (std::int64_t k = 0; k < w.view().columns; ++k) {
        const double product = static_cast<double>(x.view.Row(t)[k]) *
                               static_cast<double>(row[static_cast<std::size_t>(k)]);
        exact += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(y.view.Row(t)[n], exact, tolerance * size) << "token " << t << ", output " << n;
    }
  }
}

// The bounds of gemm.h. A bf16 has 8 significant bits: rounding to it moves a number by at most
// 2^-8 of its size.
void ExpectWithinBounds(const TestMatrix& x, const WeightMatrix& w, const GemmOptions& options,
                        const std::vector<float>& before, const TestMatrix& y, bool in_pairs) {
  if (!in_pairs) return ExpectExact(x, w, options, before, y, 2e-5);
  TestMatrix rounded(x.view.rows, x.view.columns, x.view.stride - x.view.columns);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    rounded.values[i] = Bf16ToFloat(FloatToBf16(x.values[i]));
  }
  ExpectExact(rounded, w, options, before, y, 3e-5);
  ExpectExact(x, w, options, before, y, 0x1p-8 + 4e-5);
}

TEST_P(GemmTest, AgreesWithDoublePrecisionOnOddShapes) {
  const std::vector<Shape> shapes = {{1, 1, 1},    {1, 33, 257},  {2, 31, 32},  {3, 64, 255},
                                     {4, 65, 64},  {5, 7, 513},   {7, 96, 31},  {12, 40, 300},
                                     {13, 50, 77}, {25, 129, 33}, {64, 32, 40}, {250, 37, 290}};
  for (const std::int32_t threads : {1, 3}) {
    ThreadPool pool(threads, Set());
    for (const auto& [tokens, outputs, inputs] : shapes) {
      const WeightMatrix w = RandomWeights(Format(), outputs, inputs);
      const std::vector<float> bias = RandomFloats("bias", outputs);
      TestMatrix x(tokens, inputs, 5);
      x.FillRandom("x");
      for (const bool accumulate : {false, true}) {
        const GemmOptions options = {.bias = accumulate ? bias : std::span<const float>(),
                                     .accumulate = accumulate};
        TestMatrix y(tokens, outputs);
        y.FillRandom("y");
        const std::vector<float> before = y.values;
        Gemm(pool, x.view, w.view(), options, y.view);
        ExpectWithinBounds(x, w, options, before, y, InPairs());
        EXPECT_TRUE(y.GapsAreUntouched());
      }
    }
  }
}

// The promise that lets a scheduler batch as it likes: each row has the bits it has alone.
TEST_P(GemmTest, ARowHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  constexpr std::int64_t kOutputs = 75;
  constexpr std::int64_t kInputs = 601;
  constexpr std::int64_t kTokens = 270;
  const WeightMatrix w = RandomWeights(Format(), kOutputs, kInputs);
  TestMatrix x(kTokens, kInputs);
  x.FillRandom("x");
  ThreadPool alone(1, Set());
  TestMatrix expected(kTokens, kOutputs);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    Gemm(alone, x.view.Rows(t, 1), w.view(), {}, expected.view.Rows(t, 1));
  }
  for (const std::int32_t threads : {1, 2, 3}) {
    ThreadPool pool(threads, Set());
    for (const std::int64_t tokens : {2, 3, 4, 6, 11, 12, 13, 16, 33, 241, 270}) {
      TestMatrix y(kTokens, kOutputs);
      Gemm(pool, x.view.Rows(kTokens - tokens, tokens), w.view(), {}, y.view.Rows(0, tokens));
      for (std::int64_t t = 0; t < tokens; ++t) {
        ASSERT_EQ(std::memcmp(y.view.Row(t), expected.view.Row(kTokens - tokens + t),
                              kOutputs * sizeof(float)),
                  0)
            << tokens << " tokens, row " << t;
      }
    }
  }
}

TEST_P(GemmTest, NoTokensAreNoWork) {
  const WeightMatrix w = RandomWeights(Format(), 8, 8);
  ThreadPool pool(2, Set());
  Gemm(pool, {nullptr, 0, 8, 8}, w.view(), {}, {nullptr, 0, 8, 8});
}

void ExpectSameBits(InstructionSet one, InstructionSet other, const std::vector<DType>& formats) {
  if (std::ranges::count(AllSets(), one) + std::ranges::count(AllSets(), other) < 2) {
    GTEST_SKIP() << "this machine lacks " << Name(one) << " or " << Name(other);
  }
  ThreadPool first_pool(1, one);
  ThreadPool second_pool(1, other);
  for (const DType format : formats) {
    const WeightMatrix w = RandomWeights(format, 45, 555);
    TestMatrix x(17, 555);
    x.FillRandom("x");
    TestMatrix first(17, 45);
    TestMatrix second(17, 45);
    Gemm(first_pool, x.view, w.view(), {}, first.view);
    Gemm(second_pool, x.view, w.view(), {}, second.view);
    EXPECT_EQ(first.values, second.values) << Name(format);
  }
}

// Groups of 32 to 224 columns, so that they begin within blocks and outlast them; columns as they
// come, and in an order of their own.
class Int4GroupsTest : public testing::TestWithParam<std::tuple<InstructionSet, std::int64_t>> {};

TEST_P(Int4GroupsTest, AgreesWithDoublePrecisionInAnyGroupsAndOrder) {
  constexpr std::int64_t kOutputs = 45;
  constexpr std::int64_t kInputs = 555;
  const auto [set, group] = GetParam();
  ThreadPool pool(2, set);
  const RandomInt4 source(kOutputs, kInputs, group);
  for (const bool ordered : {false, true}) {
    std::vector<std::int32_t> order;
    for (std::int32_t k = 0; ordered && k < kInputs; ++k)
      order.push_back(static_cast<std::int32_t>(k * 7 % kInputs));
    WeightMatrix w = WeightMatrix::Int4(kOutputs, kInputs, group, order);
    w.FillInt4(pool, 0, source);
    for (const std::int64_t tokens : {1, 5, 30}) {
      TestMatrix x(tokens, kInputs);
      x.FillRandom("x");
      TestMatrix y(tokens, kOutputs);
      Gemm(pool, x.view, w.view(), {}, y.view);
      ExpectExact(x, w, {}, {}, y, 2e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, Int4GroupsTest,
                         testing::Combine(testing::ValuesIn(AllSets()),
                                          testing::Values(32, 128, 224, 576)));

TEST(GemmSetsTest, Avx2AndAvx512GiveTheSameBits) {
  ExpectSameBits(InstructionSet::kAvx2, InstructionSet::kAvx512,
                 {DType::kFp32, DType::kBf16, DType::kInt8, DType::kInt4});
}

TEST(GemmSetsTest, PairsOfBf16ChangeNothingForOtherWeights) {
  ExpectSameBits(InstructionSet::kAvx512, InstructionSet::kAvx512Bf16,
                 {DType::kFp32, DType::kInt8, DType::kInt4});
}

std::string PathName(const testing::TestParamInfo<std::tuple<InstructionSet, DType>>& path) {
  return std::string(Name(std::get<0>(path.param))) + "_" +
         std::string(Name(std::get<1>(path.param)));
}

INSTANTIATE_TEST_SUITE_P(Paths, GemmTest,
                         testing::Combine(testing::ValuesIn(AllSets()),
                                          testing::Values(DType::kFp32, DType::kBf16, DType::kInt8,
                                                          DType::kInt4)),
                         PathName);

}  // namespace
}  // namespace twin::kernels
