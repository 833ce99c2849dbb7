// Models whose layers are mixtures of experts: on an emulated device, and on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/input_error.h"
#include "exec/cuda/cuda_model.h"
#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using testing::Prompts;
using twin::testing::RelativeDistance;

GenerationOptions Options(const VllmV1Config& policy, DType kv_dtype, KeptLogits keep) {
  return {.policy = policy, .keep = keep, .kv_dtype = kv_dtype, .block_size = 4};
}

std::vector<Generation> Generated(DeviceModel& model, const GenerationOptions& options) {
  std::vector<Generation> generations = Prompts();
  if (options.keep == KeptLogits::kAll) {  // those of prompts are compared
    for (Generation& generation : generations) generation.tokens_max = 1;
  }
  Generate(model, generations, options);
  return generations;
}

// The distance of the logits of each token of the prompts, ascending.
std::vector<double> Distances(const std::vector<Generation>& got,
                              const std::vector<Generation>& expected) {
  std::vector<double> distances;
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t t = 0; t < got[i].prompt.size(); ++t) {
      distances.push_back(RelativeDistance(got[i].all_logits[t], expected[i].all_logits[t]));
    }
  }
  std::sort(distances.begin(), distances.end());
  return distances;
}

// With a shared expert whose weights are plain softmax values; without one, weights normalised;
// sizes that are multiples of 8, so that experts with many rows are multiplied on tensor cores.
struct MixtureCase {
  const char* name;
  const char* config;
  bool packed = false;
};

class CudaMixtureModelTest : public DeviceModelTest,
                             public ::testing::WithParamInterface<MixtureCase> {
 protected:
  void SetUp() override {
    config_ = ParseModelConfig(GetParam().config, "config.json");
    if (GetParam().packed) {
      config_.shape.moe.expert_intermediate = 16;
      config_.shape.moe.experts_per_token = 3;
    }
    DeviceModelTest::SetUp();
  }
};

// Rounding to 16 bits changes which experts some tokens take: half of the tokens must agree to the
// rounding of bf16, and most of them to a tenth.
TEST_P(CudaMixtureModelTest, GivesTheLogitsOfTheCpu) {
  const std::vector<Generation> on_cpu =
      Generated(*LoadOnCpu(DType::kFp32), Options(VllmV1Config{}, DType::kFp32, KeptLogits::kAll));
  const auto model = Load({.dtype = DType::kBf16, .graphs = false});
  for (const std::int32_t budget : {64, 5}) {
    const std::vector<Generation> on_device =
        Generated(*model, Options({.max_num_batched_tokens = budget, .max_num_seqs = 3},
                                  DType::kBf16, KeptLogits::kAll));
    const std::vector<double> distances = Distances(on_device, on_cpu);
    EXPECT_LT(distances[distances.size() / 2], 2e-2) << budget;
    EXPECT_LT(distances[distances.size() * 9 / 10], 0.1) << budget;
  }
}

// The numbers that the CPU multiplies by, widened when they are loaded.
TEST_P(CudaMixtureModelTest, OfFourBitsGivesTheLogitsOfTheCpu) {
  const auto on_cpu = [&](DType format) {
    return Generated(*LoadOnCpu(format), Options(VllmV1Config{}, DType::kFp32, KeptLogits::kAll));
  };
  const std::vector<Generation> rounded = on_cpu(DType::kInt4);
  const auto on_device = Generated(*Load({.dtype = DType::kInt4, .graphs = false}),
                                   Options(VllmV1Config{}, DType::kBf16, KeptLogits::kAll));
  const std::vector<double> distances = Distances(on_device, rounded);
  EXPECT_LT(distances[distances.size() / 2], 0.04);  // as of other models, in 16 bits
  // The rounding of weights is seen: the comparison would fail without it.
  const std::vector<double> of_rounding = Distances(on_cpu(DType::kFp32), rounded);
  EXPECT_GT(of_rounding[of_rounding.size() / 2], 0.08);
}

TEST_P(CudaMixtureModelTest, GraphsAndBatchesGiveTheTokensOfLaunchedKernels) {
  if (!testing::DeviceIsExact()) GTEST_SKIP() << "of a device that rounds alike in every batch";
  const auto tokens = [&](bool graphs, const VllmV1Config& policy) {
    std::vector<std::vector<std::int32_t>> outputs;
    for (const auto& each : Generated(*Load({.dtype = DType::kBf16, .graphs = graphs}),
                                      Options(policy, DType::kBf16, KeptLogits::kNone))) {
      outputs.push_back(each.output);
    }
    return outputs;
  };
  const auto plain = tokens(false, {.max_num_batched_tokens = 8, .max_num_seqs = 3});
  EXPECT_EQ(tokens(true, {.max_num_batched_tokens = 8, .max_num_seqs = 3}), plain);
  EXPECT_EQ(
      tokens(true, {.max_num_batched_tokens = 8, .max_num_seqs = 3, .async_scheduling = true}),
      plain);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaMixtureModelTest,
                         ::testing::Values(MixtureCase{"WithSharedExpert", testing::kMixtureConfig},
                                           MixtureCase{"Normalised", testing::kMixtralConfig},
                                           MixtureCase{"OnTensorCores", testing::kMixtureConfig,
                                                       true}),
                         [](const auto& each) { return std::string(each.param.name); });

class CudaMixtureTest : public DeviceModelTest {
 protected:
  CudaMixtureTest() { config_ = ParseModelConfig(testing::kMixtureConfig, "config.json"); }
};

TEST_F(CudaMixtureTest, DummyWeightsAreThoseOfTheCpu) {
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .seed = 5,
                                                .format = DType::kBf16,
                                                .positions = 100,
                                                .largest_step = {.tokens = 64, .sequences = 4},
                                                .graphs = false,
                                                .tunes = false,
                                                .checks_finite = true},
                                               pool_);
  CpuModel on_cpu(config_, MakeDummyWeights(config_, DType::kFp32, 5, pool_), 100, pool_);
  const std::vector<double> distances =
      Distances(Generated(*loaded.model, Options(VllmV1Config{}, DType::kBf16, KeptLogits::kAll)),
                Generated(on_cpu, Options(VllmV1Config{}, DType::kFp32, KeptLogits::kAll)));
  EXPECT_LT(distances[distances.size() / 2], 2e-2);
}

TEST_F(CudaMixtureTest, RefusesLayersThatOnlyCpusCompute) {
  const ModelConfig config = ParseModelConfig(
      R"({"model_type": "olmo2", "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 29,
          "max_position_embeddings": 128})",
      "config.json");
  try {
    (void)LoadCudaModel({.config = config, .format = DType::kBf16, .positions = 100}, pool_);
    ADD_FAILURE() << "loaded";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("is cuda, which computes models of equal layers"));
  }
}

TEST_F(CudaMixtureTest, SaysWhichWidthsTensorCoresDoNotTake) {
  const auto warnings = [&] {
    return dynamic_cast<CudaModel&>(*Load({.graphs = false})).SlowParts();
  };
  const char* const line =
      "experts are not multiplied on tensor cores, which is slower: their width 12 is no multiple "
      "of 8";
  EXPECT_THAT(warnings(), ::testing::Contains(line));
  config_.shape.moe.expert_intermediate = 16;
  folder_.WriteWeights(testing::RandomTensors(config_, "model."));
  EXPECT_THAT(warnings(), ::testing::Not(::testing::Contains(::testing::HasSubstr("experts"))));
}

TEST_F(CudaMixtureTest, OperationsAndTheMeasuredCacheWork) {
  const auto model = Load({.graphs = false, .largest_step = {.tokens = 16, .sequences = 4}});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 40, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  for (const std::int64_t tokens : {3, 20}) {
    EXPECT_GE(operations->RunGemms(tokens).expert_up, 0);
    EXPECT_GE(operations->RunOther(tokens).routing, 0);
  }
  EXPECT_GT(MeasureKvBytes(*model, 0.5), 0);
}

TEST_F(CudaMixtureTest, CountsTheWorkOfTheCpu) {
  const ModelWork work = Load({})->WorkWith(DType::kBf16);
  const ModelWork on_cpu = LoadOnCpu(DType::kFp32)->WorkWith(DType::kBf16);
  EXPECT_EQ(work.layer_weights, on_cpu.layer_weights);
  EXPECT_EQ(work.expert_weights, on_cpu.expert_weights);
  EXPECT_EQ(work.experts, on_cpu.experts);
  EXPECT_EQ(work.experts_per_token, on_cpu.experts_per_token);
  EXPECT_GT(work.expert_bytes, 0);
}

}  // namespace
}  // namespace twin::exec::cuda
