// Norms, rotary embedding, activations and elementwise operations against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/unit/kernels/kernel_cases.h"

namespace twin::kernels {
namespace {

constexpr std::int64_t kTokens = 5;

class RowKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  ThreadPool pool_{2, GetParam()};
};

double Mean(const float* x, std::int64_t size, double power, double offset) {
  double sum = 0;
  for (std::int64_t d = 0; d < size; ++d)
    sum += std::pow(static_cast<double>(x[d]) - offset, power);
  return sum / static_cast<double>(size);
}

TEST_P(RowKernelsTest, RmsNormAgreesWithDoublePrecision) {
  for (const std::int64_t hidden : {1, 7, 16, 48, 65, 768, 2051}) {
    TestMatrix x(kTokens, hidden);
    x.FillRandom("x", 3);
    const std::vector<float> gain = RandomFloats("gain", hidden);
    TestMatrix y(kTokens, hidden);
    RmsNorm(pool_, x.view, gain, 1e-5F, y.view);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const double factor = 1 / std::sqrt(Mean(x.view.Row(t), hidden, 2, 0) + 1e-5);
      double largest = 0;
      for (std::int64_t d = 0; d < hidden; ++d) {
        largest = std::max(largest,
                           std::abs(x.view.Row(t)[d] * factor * gain[static_cast<std::size_t>(d)]));
      }
      for (std::int64_t d = 0; d < hidden; ++d) {
        EXPECT_NEAR(y.view.Row(t)[d], x.view.Row(t)[d] * factor * gain[static_cast<std::size_t>(d)],
                    2e-6 * largest);
      }
    }
    EXPECT_TRUE(y.GapsAreUntouched());
  }
}

TEST_P(RowKernelsTest, LayerNormAgreesWithDoublePrecisionFarFromZero) {
  for (const std::int64_t hidden : {1, 7, 48, 768}) {
    TestMatrix x(kTokens, hidden);
    x.FillRandom("x");
    for (std::int64_t d = 0; d < hidden; ++d) x.view.Row(0)[d] += 100;
    const std::vector<float> gain = RandomFloats("gain", hidden);
    const std::vector<float> bias = RandomFloats("bias", hidden);
    TestMatrix y(kTokens, hidden);
    LayerNorm(pool_, x.view, gain, bias, 1e-5F, y.view);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const double mean = Mean(x.view.Row(t), hidden, 1, 0);
      const double factor = 1 / std::sqrt(Mean(x.view.Row(t), hidden, 2, mean) + 1e-5);
      for (std::int64_t d = 0; d < hidden; ++d) {
        const double exact = (x.view.Row(t)[d] - mean) * factor * gain[static_cast<std::size_t>(d)];
        // Of row 0 the input itself is rounded to 100 * 2^-24.
        EXPECT_NEAR(y.view.Row(t)[d], exact + bias[static_cast<std::size_t>(d)],
                    t == 0 ? 1e-4 : 1e-5);
      }
    }
    EXPECT_TRUE(y.GapsAreUntouched());
  }
}

TEST_P(RowKernelsTest, FusedNormsAreTheSumFollowedByTheNorm) {
  constexpr std::int64_t kHidden = 77;
  const std::vector<float> gain = RandomFloats("gain", kHidden);
  const std::vector<float> bias = RandomFloats("bias", kHidden);
  for (const bool rms : {true, false}) {
    TestMatrix delta(kTokens, kHidden);
    TestMatrix residual(kTokens, kHidden);
    delta.FillRandom("delta");
    residual.FillRandom("residual");
    TestMatrix sum(kTokens, kHidden);
    sum.FillRandom("residual");
    Add(pool_, delta.view, sum.view);
    TestMatrix expected(kTokens, kHidden);
    if (rms) {
      RmsNorm(pool_, sum.view, gain, 1e-6F, expected.view);
      AddRmsNorm(pool_, delta.view, gain, 1e-6F, residual.view, delta.view);
    } else {
      LayerNorm(pool_, sum.view, gain, bias, 1e-6F, expected.view);
      AddLayerNorm(pool_, delta.view, gain, bias, 1e-6F, residual.view, delta.view);
    }
    EXPECT_EQ(residual.values, sum.values);
    EXPECT_EQ(delta.values, expected.values);
  }
}

TEST_P(RowKernelsTest, HeadNormIsTheNormOfEachHead) {
  constexpr std::int64_t kHeadDim = 20;
  const std::vector<float> gain = RandomFloats("gain", kHeadDim);
  TestMatrix x(kTokens, 3 * kHeadDim);
  x.FillRandom("x");
  TestMatrix expected(kTokens, 3 * kHeadDim);
  for (std::int64_t head = 0; head < 3; ++head) {
    RmsNorm(pool_, x.view.Columns(head * kHeadDim, kHeadDim), gain, 1e-6F,
            expected.view.Columns(head * kHeadDim, kHeadDim));
  }
  HeadRmsNorm(pool_, gain, 1e-6F, x.view);
  EXPECT_EQ(x.values, expected.values);
}

TEST_P(RowKernelsTest, RopeTurnsPairsHalfAHeadApart) {
  for (const std::int64_t pairs : {1, 6, 10, 12, 32, 64}) {
    const std::int64_t head_dim = 2 * pairs + 2;  // the last two stay
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < pairs; ++i) {
      frequencies.push_back(
          std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs)));
    }
    const RopeTable table(frequencies, 4000, 1.25);
    const std::vector<std::int32_t> positions = {0, 1, 17, 399, 3999};
    TestMatrix x(kTokens, 3 * head_dim);
    x.FillRandom("x");
    const std::vector<float> before = x.values;
    ApplyRope(pool_, table, positions, {head_dim}, x.view);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t head = 0; head < 3; ++head) {
        const float* old = before.data() + t * x.view.stride + head * head_dim;
        const float* now = x.view.Row(t) + head * head_dim;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double angle =
              positions[static_cast<std::size_t>(t)] * frequencies[static_cast<std::size_t>(i)];
          const double c = 1.25 * std::cos(angle);
          const double s = 1.25 * std::sin(angle);
          EXPECT_NEAR(now[i], old[i] * c - old[i + pairs] * s, 2e-6);
          EXPECT_NEAR(now[i + pairs], old[i + pairs] * c + old[i] * s, 2e-6);
        }
        EXPECT_EQ(now[2 * pairs], old[2 * pairs]);
        EXPECT_EQ(now[2 * pairs + 1], old[2 * pairs + 1]);
      }
    }
    EXPECT_TRUE(x.GapsAreUntouched());
  }
}

TEST_P(RowKernelsTest, RopeTurnsNeighboursBehindAnUnrotatedPart) {
  for (const std::int64_t pairs : {1, 2, 3, 4, 6, 8, 10, 16, 21, 32}) {
    constexpr std::int64_t kFirst = 5;
    const std::int64_t head_dim = kFirst + 2 * pairs + 1;
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < pairs; ++i) frequencies.push_back(1.0 / (1 << i % 8));
    const RopeTable table(frequencies, 400);
    const std::vector<std::int32_t> positions = {0, 1, 17, 20, 399};
    TestMatrix x(kTokens, 2 * head_dim);
    x.FillRandom("x");
    const std::vector<float> before = x.values;
    ApplyRope(pool_, table, positions, {.head_dim = head_dim, .first = kFirst, .neighbours = true},
              x.view);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t head = 0; head < 2; ++head) {
        const float* old = before.data() + t * x.view.stride + head * head_dim;
        const float* now = x.view.Row(t) + head * head_dim;
        for (std::int64_t d = 0; d < kFirst; ++d) EXPECT_EQ(now[d], old[d]);
        EXPECT_EQ(now[head_dim - 1], old[head_dim - 1]);
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double angle =
              positions[static_cast<std::size_t>(t)] * frequencies[static_cast<std::size_t>(i)];
          const double a = old[kFirst + 2 * i];
          const double b = old[kFirst + 2 * i + 1];
          EXPECT_NEAR(now[kFirst + 2 * i], a * std::cos(angle) - b * std::sin(angle), 2e-6);
          EXPECT_NEAR(now[kFirst + 2 * i + 1], b * std::cos(angle) + a * std::sin(angle), 2e-6);
        }
      }
    }
    EXPECT_TRUE(x.GapsAreUntouched());
  }
}

double Exact(Activation activation, double z) {
  switch (activation) {
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
    case Activation::kGelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case Activation::kRelu:
      return std::max(z, 0.0);
  }
  return 0;
}

TEST_P(RowKernelsTest, ActivationsAgreeWithDoublePrecisionFromTailToTail) {
  constexpr std::int64_t kCount = 4003;
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    TestMatrix x(1, kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      x.view.Row(0)[i] = static_cast<float>(i - 2001) * 0.06F;  // -120 to 120
    }
    const std::vector<float> before = x.values;
    Activate(pool_, activation, x.view);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double z = before[i];
      EXPECT_NEAR(x.values[i], Exact(activation, z), 4e-6 * std::max(1.0, std::abs(z))) << z;
    }
    EXPECT_TRUE(x.GapsAreUntouched());
  }
}

TEST_P(RowKernelsTest, GatedActivationMultipliesByTheOtherHalf) {
  TestMatrix both(kTokens, 2 * 37);
  both.FillRandom("both", 4);
  TestMatrix y(kTokens, 37);
  ActivateGated(pool_, Activation::kSilu, both.view.Columns(0, 37), both.view.Columns(37, 37),
                y.view);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t d = 0; d < 37; ++d) {
      const double exact = Exact(Activation::kSilu, both.view.Row(t)[d]) * both.view.Row(t)[37 + d];
      EXPECT_NEAR(y.view.Row(t)[d], exact, 2e-5);
    }
  }
  EXPECT_TRUE(y.GapsAreUntouched());
}

TEST_P(RowKernelsTest, ElementwiseOperationsByHand) {
  std::vector<float> y = {1, 2, 3, 4, 5, 6};
  const MatrixView<float> view = DenseMatrix(y.data(), 2, 3);
  const std::vector<float> bias = {10, 20, 30};
  AddBias(pool_, bias, view);
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 14, 25, 36}));
  Scale(pool_, -2, view);
  EXPECT_EQ(y, (std::vector<float>{-22, -44, -66, -28, -50, -72}));
  SoftCap(pool_, 30, view);
  EXPECT_NEAR(y[0], 30 * std::tanh(-22.0 / 30), 1.2e-4);
  EXPECT_NEAR(y[5], 30 * std::tanh(-72.0 / 30), 1.2e-4);
}

TEST_P(RowKernelsTest, EmbedsAddsAndGathersRows) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};  // [3, 2]
  WeightMatrix table(DType::kFp32, 3, 2);
  table.Fill(
      pool_, 0,
      {.data = reinterpret_cast<const std::byte*>(values.data()), .rows = 3, .row_stride = 2});
  std::vector<float> y(6);
  const MatrixView<float> view = DenseMatrix(y.data(), 3, 2);
  const std::vector<std::int32_t> ids = {2, 0, 2};
  EmbedRows(pool_, table.view(), ids, view);
  EXPECT_EQ(y, (std::vector<float>{5, 6, 1, 2, 5, 6}));
  AddEmbeddedRows(pool_, table.view(), std::vector<std::int32_t>{1, 1, 0}, view);
  EXPECT_EQ(y, (std::vector<float>{8, 10, 4, 6, 6, 8}));
  std::vector<float> last(4);
  GatherRows(pool_, view, std::vector<std::int32_t>{2, 0}, DenseMatrix(last.data(), 2, 2));
  EXPECT_EQ(last, (std::vector<float>{6, 8, 8, 10}));
}

INSTANTIATE_TEST_SUITE_P(Sets, RowKernelsTest, testing::ValuesIn(AllSets()), SetName);

}  // namespace
}  // namespace twin::kernels
