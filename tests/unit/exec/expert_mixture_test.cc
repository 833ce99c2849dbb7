// Mixtures of experts against the formula in double precision, in every format of weights.
#include "exec/cpu/expert_mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using Row = std::vector<double>;

Row Times(const kernels::WeightView& w, const Row& x) {
  Row y;
  std::vector<float> weights(static_cast<std::size_t>(w.columns));
  for (std::int64_t i = 0; i < w.rows; ++i) {
    w.CopyRow(i, weights.data());
    y.push_back(std::inner_product(x.begin(), x.end(), weights.begin(), 0.0));
  }
  return y;
}

Row Mlp(const MixtureMatrices::Expert& expert, const Row& x) {
  const Row both = Times(expert.up, x);
  const std::size_t width = both.size() / 2;
  Row inner(width);
  for (std::size_t i = 0; i < width; ++i) {
    inner[i] = both[i] / (1 + std::exp(-both[i])) * both[width + i];
  }
  return Times(expert.down, inner);
}

// As the formula says, for one row.
Row Expected(const MixtureMatrices& mixture, const ModelConfig& config, const Row& x) {
  Row weights = Times(mixture.router, x);
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight);
  for (double& weight : weights) weight /= sum;
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  order.resize(static_cast<std::size_t>(config.shape.moe.experts_per_token));
  double taken = 0;
  for (const std::size_t expert : order) taken += weights[expert];
  Row result(x.size());
  const auto add = [&](double factor, const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) result[i] += factor * row[i];
  };
  for (const std::size_t expert : order) {
    const double weight = weights[expert] / (config.normalises_expert_weights ? taken : 1);
    add(weight, Mlp(mixture.experts[expert], x));
  }
  if (mixture.has_shared()) {
    add(1 / (1 + std::exp(-Times(mixture.shared_gate, x)[0])), Mlp(mixture.shared, x));
  }
  return result;
}

class ExpertMixtureTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 37;
  static constexpr std::int64_t kHidden = 16;

  ExpertMixtureTest() {
    Random random(5, "rows");
    for (float& value : x_) value = static_cast<float>(random.Normal());
  }

  void Use(const char* text, DType format) {
    config_ = ParseModelConfig(text, "config.json");
    const testing::ModelFolder folder("mixture");
    folder.WriteWeights(testing::RandomTensors(config_, "model."));
    weights_ = LoadWeights(folder.path(), config_, format, pool_).weights;
    mixtures_ = MixturesOf(weights_);
  }

  [[nodiscard]] kernels::MatrixView<const float> Rows(std::int64_t first, std::int64_t count) {
    return kernels::DenseMatrix(x_.data(), kRows, kHidden).Rows(first, count);
  }

  [[nodiscard]] std::vector<float> Compute(std::int64_t first, std::int64_t count) {
    ExpertMixture mixture(config_, pool_);
    const auto y = mixture.Compute(Rows(first, count), mixtures_[1],
                                   [this](MixturePart part) { laps_.push_back(part); });
    return {y.data, y.data + y.rows * y.columns};
  }

  // Whose products round no activations.
  kernels::ThreadPool pool_{2, kernels::InstructionSet::kPortable};
  std::vector<float> x_ = std::vector<float>(kRows * kHidden);
  ModelConfig config_;
  ModelWeights weights_;
  std::vector<MixtureMatrices> mixtures_;
  std::vector<MixturePart> laps_;
};

TEST_F(ExpertMixtureTest, AgreesWithTheFormulaInEveryFormat) {
  for (const char* const text : {testing::kMixtureConfig, testing::kMixtralConfig}) {
    for (const DType format : {DType::kFp32, DType::kBf16, DType::kInt8}) {
      Use(text, format);
      const std::vector<float> y = Compute(0, kRows);
      for (std::int64_t t = 0; t < kRows; ++t) {
        const float* const row = Rows(t, 1).data;
        const Row expected = Expected(mixtures_[1], config_, Row(row, row + kHidden));
        for (std::size_t d = 0; d < expected.size(); ++d) {
          EXPECT_NEAR(y[static_cast<std::size_t>(t) * kHidden + d], expected[d], 2e-5)
              << Name(format) << ", row " << t;
        }
      }
    }
  }
}

TEST_F(ExpertMixtureTest, ARowIsTheSameToTheBitAloneAndInCompany) {
  for (const DType format : {DType::kFp32, DType::kBf16, DType::kInt8}) {
    Use(testing::kMixtureConfig, format);
    const std::vector<float> all = Compute(0, kRows);
    for (std::int64_t t = 0; t < kRows; ++t) {
      const auto from = all.begin() + t * kHidden;
      EXPECT_EQ(Compute(t, 1), std::vector<float>(from, from + kHidden));
    }
  }
}

TEST_F(ExpertMixtureTest, ExpertsThatNoRowChoosesAreNotComputed) {
  Use(testing::kMixtralConfig, DType::kFp32);
  (void)Compute(0, 1);
  EXPECT_EQ(std::count(laps_.begin(), laps_.end(), MixturePart::kExpertUp), 2);  // of 4
  laps_.clear();
  (void)Compute(0, 0);
  EXPECT_EQ(std::count(laps_.begin(), laps_.end(), MixturePart::kExpertUp), 0);
}

TEST_F(ExpertMixtureTest, DenseModelsHaveNone) {
  Use(testing::kLlamaConfig, DType::kFp32);
  EXPECT_TRUE(mixtures_.empty());
}

}  // namespace
}  // namespace twin::exec
