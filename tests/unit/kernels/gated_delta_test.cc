// Gated DeltaNet's operations in double precision, in one piece and in several.
#include "kernels/gated_delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/activation.h"
#include "kernels/norm.h"
#include "tests/unit/kernels/kernel_cases.h"

namespace twin::kernels {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class GatedDeltaTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  ThreadPool pool_{2, GetParam()};
};

TEST_P(GatedDeltaTest, ConvolvesEachChannelWithItsEarlierInputs) {
  for (const std::int64_t taps : {1, 2, 4}) {
    for (const std::int64_t channels : {1, 7, 33, 300}) {
      constexpr std::int64_t kRows = 9;
      TestMatrix weights(taps, channels);
      weights.FillRandom("taps");
      TestMatrix x(kRows, channels);
      x.FillRandom("x");
      const std::vector<float> before = RandomFloats("tail", (taps - 1) * channels);
      const auto input = [&](std::int64_t t, std::int64_t c) -> double {
        const std::int64_t row = t + taps - 1;
        return row < taps - 1 ? before[static_cast<std::size_t>(row * channels + c)]
                              : x.values[static_cast<std::size_t>(t * x.view.stride + c)];
      };
      std::vector<double> exact;
      for (std::int64_t t = 0; t < kRows; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (std::int64_t j = 0; j < taps; ++j) {
            sum += weights.view.Row(j)[c] * input(t - taps + 1 + j, c);
          }
          exact.push_back(sum * Sigmoid(sum));
        }
      }
      std::vector<float> tail;
      for (std::int64_t t = kRows - taps + 1; t < kRows; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          tail.push_back(static_cast<float>(input(t, c)));
        }
      }
      // One sequence of nine rows, cut after the second one.
      std::vector<float> state = before;
      state.reserve(1);  // without taps before the last one, a state of no numbers is one too
      for (const auto& [first, count] : {std::pair{0, 2}, {2, 7}}) {
        const std::vector<std::int32_t> rows = {0, count};
        const std::vector<float*> states = {state.data()};
        CausalConvolution(pool_, weights.view, {rows, states}, x.view.Rows(first, count));
      }
      for (std::int64_t t = 0; t < kRows; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          EXPECT_NEAR(x.view.Row(t)[c], exact[static_cast<std::size_t>(t * channels + c)], 3e-5);
        }
      }
      EXPECT_EQ(state, tail);
      EXPECT_TRUE(x.GapsAreUntouched());
    }
  }
}

// Inputs of the delta rule for some rows.
struct Scene {
  Scene(const DeltaHeads& shape, std::int64_t rows)
      : heads(shape),
        queries(rows, shape.key_width()),
        keys(rows, shape.key_width()),
        values(rows, shape.value_width()),
        rates(rows, shape.value_heads),
        decays(rows, shape.value_heads),
        out(rows, shape.value_width()),
        decay(RandomFloats("decay", shape.value_heads)),
        decay_bias(RandomFloats("decay_bias", shape.value_heads)) {
    queries.FillRandom("queries");
    keys.FillRandom("keys");
    values.FillRandom("values");
    rates.FillRandom("rates");
    decays.FillRandom("decays", 10);  // on both sides of where softplus is the identity
  }

  [[nodiscard]] DeltaInputs Rows(std::int64_t first, std::int64_t count) const {
    return {.queries = queries.view.Rows(first, count),
            .keys = keys.view.Rows(first, count),
            .values = values.view.Rows(first, count),
            .rates = rates.view.Rows(first, count),
            .decays = decays.view.Rows(first, count),
            .decay = decay,
            .decay_bias = decay_bias};
  }

  // One value head over all rows, in double precision. Replaces the state.
  [[nodiscard]] std::vector<double> Exact(std::int64_t head, std::vector<double>& state) const {
    const auto h = static_cast<std::size_t>(head);
    const std::int64_t column = head / (heads.value_heads / heads.key_heads) * heads.key_dim;
    const auto unit = [&](const TestMatrix& of, std::int64_t t, double length) {
      std::vector<double> x(of.view.Row(t) + column, of.view.Row(t) + column + heads.key_dim);
      double squares = 1e-6;
      for (const double value : x) squares += value * value;
      for (double& value : x) value *= length / std::sqrt(squares);
      return x;
    };
    std::vector<double> all;
    for (std::int64_t t = 0; t < out.view.rows; ++t) {
      const auto q = unit(queries, t, 1 / std::sqrt(static_cast<double>(heads.key_dim)));
      const auto k = unit(keys, t, 1);
      const double step = std::log1p(std::exp(double{decays.view.Row(t)[head]} + decay_bias[h]));
      const double kept = std::exp(-std::exp(double{decay[h]}) * step);
      for (std::int64_t v = 0; v < heads.value_dim; ++v) {
        const auto at = [&](std::size_t i) -> double& {
          return state[i * static_cast<std::size_t>(heads.value_dim) + static_cast<std::size_t>(v)];
        };
        double memory = 0;
        for (std::size_t i = 0; i < k.size(); ++i) memory += (at(i) *= kept) * k[i];
        const double value = values.view.Row(t)[head * heads.value_dim + v];
        const double change = (value - memory) * Sigmoid(rates.view.Row(t)[head]);
        double sum = 0;
        for (std::size_t i = 0; i < k.size(); ++i) sum += (at(i) += k[i] * change) * q[i];
        all.push_back(sum);
      }
    }
    return all;
  }

  DeltaHeads heads;
  TestMatrix queries, keys, values, rates, decays, out;
  std::vector<float> decay, decay_bias;
};

TEST_P(GatedDeltaTest, FollowsTheRuleFromAStateOn) {
  for (const DeltaHeads& heads : {DeltaHeads{1, 1, 1, 1}, DeltaHeads{2, 4, 6, 5},
                                  DeltaHeads{2, 2, 12, 20}, DeltaHeads{1, 2, 16, 131}}) {
    Scene scene(heads, 12);
    const auto per_head = static_cast<std::size_t>(heads.key_dim * heads.value_dim);
    std::vector<float> state = RandomFloats("state", heads.StateFloats());
    const std::vector<float> before = state;
    for (const auto& [first, count] : {std::pair{0, 5}, {5, 1}, {6, 6}}) {
      const std::vector<std::int32_t> rows = {0, count};
      const std::vector<float*> states = {state.data()};
      GatedDeltaRule(pool_, heads, {rows, states}, scene.Rows(first, count),
                     scene.out.view.Rows(first, count));
    }
    for (std::int64_t head = 0; head < heads.value_heads; ++head) {
      const auto begin = before.begin() + head * static_cast<std::ptrdiff_t>(per_head);
      std::vector<double> exact_state(begin, begin + static_cast<std::ptrdiff_t>(per_head));
      const std::vector<double> exact = scene.Exact(head, exact_state);
      for (std::int64_t t = 0; t < 12; ++t) {
        for (std::int64_t v = 0; v < heads.value_dim; ++v) {
          EXPECT_NEAR(scene.out.view.Row(t)[head * heads.value_dim + v],
                      exact[static_cast<std::size_t>(t * heads.value_dim + v)], 2e-5);
        }
      }
      for (std::size_t i = 0; i < per_head; ++i) {
        EXPECT_NEAR(state[static_cast<std::size_t>(head) * per_head + i], exact_state[i], 2e-5);
      }
    }
    EXPECT_TRUE(scene.out.GapsAreUntouched());
  }
}

TEST_P(GatedDeltaTest, SequencesOfABatchAreApartAndPaddingIsZero) {
  const DeltaHeads heads{2, 4, 6, 5};
  Scene together(heads, 7);
  std::vector<float> first(static_cast<std::size_t>(heads.StateFloats()));
  std::vector<float> second = first;
  const std::vector<std::int32_t> rows = {0, 3, 5, 7};
  const std::vector<float*> states = {first.data(), nullptr, second.data()};
  GatedDeltaRule(pool_, heads, {rows, states}, together.Rows(0, 7), together.out.view);
  Scene alone(heads, 7);
  std::vector<float> state(first.size());
  const std::vector<std::int32_t> two = {0, 2};
  const std::vector<float*> one = {state.data()};
  GatedDeltaRule(pool_, heads, {two, one}, alone.Rows(5, 2), alone.out.view.Rows(5, 2));
  EXPECT_EQ(state, second);
  for (std::int64_t v = 0; v < heads.value_width(); ++v) {
    EXPECT_EQ(together.out.view.Row(3)[v], 0);
    EXPECT_EQ(together.out.view.Row(4)[v], 0);
    EXPECT_EQ(together.out.view.Row(5)[v], alone.out.view.Row(5)[v]);
    EXPECT_EQ(together.out.view.Row(6)[v], alone.out.view.Row(6)[v]);
  }
}

TEST_P(GatedDeltaTest, GatesPiecesOfRows) {
  TestMatrix gates(3, 2 * 22);
  TestMatrix y(3, 2 * 11);
  gates.FillRandom("gates", 3);
  y.FillRandom("y");
  const std::vector<float> before = y.values;
  GateRows(pool_, gates.view, 11, 22, y.view);
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t i = 0; i < 22; ++i) {
      const double gate = Sigmoid(gates.view.Row(t)[i / 11 * 22 + i % 11]);
      EXPECT_NEAR(y.view.Row(t)[i], before[static_cast<std::size_t>(t * y.view.stride + i)] * gate,
                  2e-6);
    }
  }
  EXPECT_TRUE(y.GapsAreUntouched());
}

TEST_P(GatedDeltaTest, ClampsGatesAndUps) {
  TestMatrix gate(1, 37);
  TestMatrix up(1, 37);
  gate.FillRandom("gate", 4);
  up.FillRandom("up", 4);
  TestMatrix y(1, 37);
  ActivateClamped(pool_, 3, gate.view, up.view, y.view);
  for (std::int64_t i = 0; i < 37; ++i) {
    const double g = std::min(gate.view.Row(0)[i], 3.0F);
    const double u = std::clamp(up.view.Row(0)[i], -3.0F, 3.0F);
    EXPECT_NEAR(y.view.Row(0)[i], g * Sigmoid(1.702 * g) * (1 + u), 4e-5);
  }
}

TEST_P(GatedDeltaTest, NormsOfPartsAreTheNormOfTheWhole) {
  TestMatrix whole(4, 30);
  whole.FillRandom("x");
  const std::vector<float> gain = RandomFloats("gain", 30);
  TestMatrix parts(4, 30);
  parts.FillRandom("x");
  const MatrixView<float> left = parts.view.Columns(0, 13);
  const MatrixView<float> right = parts.view.Columns(13, 17);
  std::vector<float> sums(8);
  std::vector<float> more(8);
  SumSquares(pool_, left, 2, sums);
  SumSquares(pool_, right, 2, more);
  for (std::size_t i = 0; i < 8; i += 2) sums[i] += more[i];
  NormalizeBySums(pool_, sums, 2, 30, std::span(gain).first(13), 1e-5F, left);
  NormalizeBySums(pool_, sums, 2, 30, std::span(gain).subspan(13), 1e-5F, right);
  RmsNorm(pool_, whole.view, gain, 1e-5F, whole.view);
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t d = 0; d < 30; ++d) {
      EXPECT_NEAR(parts.view.Row(t)[d], whole.view.Row(t)[d], 4e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, GatedDeltaTest, ::testing::ValuesIn(AllSets()), SetName);

}  // namespace
}  // namespace twin::kernels
