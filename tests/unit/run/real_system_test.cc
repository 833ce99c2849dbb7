// How much memory a real world takes of what a machine can give.
#include "run/real/real_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/models/named_model.h"
#include "core/input_error.h"
#include "run/available_memory.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMegabyte = 1'000'000;

ExperimentConfig Experiment(const std::string& memory, const std::string& policy = "vllm_v1 {}") {
  return ParseExperiment(
      "world { real { dummy_weights: true } } workload { requests: 1 "
      "arrivals { kind: all_at_once } shape { prompt { kind: fixed value: 4 } output { kind: fixed "
      "value: 4 } } } "
      "policy { " +
          policy +
          " } system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 "
          "intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 "
          "weight_dtype: fp32 kv_dtype: bf16 } memory { non_framework_bytes: 0 " +
          memory + " } } cost { constant { step_s: 1 } }",
      "test", "/");
}

std::string ErrorOf(const ExperimentConfig& config, std::int64_t memory_bytes) {
  try {
    (void)ResolveForThisMachine(config, memory_bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// A block: 16 tokens x 2 layers x (key + value) x 2 heads x 8 dimensions x 2 bytes = 2048 bytes.
// Weights: embedding and head 2 x 101 x 32, final norm 32; a layer: norms 2 x 32, qkv 32 x 64,
// output 32 x 32, MLP 3 x 32 x 48: 7744. In all 6464 + 32 + 15488 = 21984, times 4 bytes.
constexpr std::int64_t kBlockBytes = 2048;
constexpr std::int64_t kWeightBytes = 21984 * 4;

TEST(ResolveForThisMachineTest, GivesTheCacheWhatTheRuleLeaves) {
  const ExperimentConfig real = ResolveForThisMachine(
      Experiment("utilization: 0.5 activation_bytes: 1000000"), 10 * kMegabyte);
  // vLLM V1's rule: half of the memory, less weights and activations.
  EXPECT_EQ(real.system.memory.blocks_override,
            (5 * kMegabyte - kWeightBytes - kMegabyte) / kBlockBytes);
}

// Residual, normed input (2 x 32) and the MLP (3 x 48) in fp32 for 64 tokens, and 8 rows of logits
// with a copy.
TEST(ResolveForThisMachineTest, CountsActivationsInTheExecutorsFormat) {
  const ExperimentConfig real = ResolveForThisMachine(
      Experiment("", "vllm_v1 { max_num_batched_tokens: 64 max_num_seqs: 8 }"), 10 * kMegabyte);
  EXPECT_EQ(real.system.memory.activation_bytes, 64 * (64 + 144) * 4 + 8 * 101 * 4 * 2);
}

TEST(ResolveForThisMachineTest, TakesFourGibibytesUnlessAskedForMore) {
  const std::int64_t gibibytes = std::int64_t{4} << 30;
  EXPECT_EQ(
      ResolveForThisMachine(Experiment(""), 100'000 * kMegabyte).system.memory.blocks_override,
      gibibytes / kBlockBytes);
  EXPECT_GT(ResolveForThisMachine(Experiment("utilization: 0.9"), 100'000 * kMegabyte)
                .system.memory.blocks_override,
            40 * gibibytes / 2 / kBlockBytes);
}

TEST(ResolveForThisMachineTest, FillsInWhatTheMachineAndTheModelSay) {
  const ExperimentConfig real =
      ResolveForThisMachine(Experiment("blocks_override: 50"), 10 * kMegabyte);
  EXPECT_GT(std::get<RealWorldConfig>(real.world).threads, 0);
  EXPECT_EQ(real.system.memory.max_model_length, 128);
  EXPECT_EQ(real.system.memory.blocks_override, 50);
  EXPECT_EQ(real.system.memory.swap_bytes, 0);  // nothing swaps
}

TEST(ResolveForThisMachineTest, SwapSpaceIsTakenFromTheSameMemory) {
  const std::string swaps = "vllm_v0 { preemption_mode: swap }";
  const ExperimentConfig real = ResolveForThisMachine(
      Experiment("utilization: 1 activation_bytes: 0 swap_bytes: 2000000", swaps), 10 * kMegabyte);
  EXPECT_EQ(real.system.memory.swap_bytes, 2 * kMegabyte);
  EXPECT_EQ(real.system.memory.blocks_override, (8 * kMegabyte - kWeightBytes) / kBlockBytes);
  EXPECT_THAT(ErrorOf(Experiment("swap_bytes: 20000000", swaps), 10 * kMegabyte),
              HasSubstr("does not fit"));
}

// Both replicas compute with the same weights; each takes half of what these leave.
TEST(ResolveForThisMachineTest, ReplicasShareTheWeightsAndDivideTheRest) {
  ExperimentConfig config = Experiment("utilization: 1 activation_bytes: 0");
  config.system.replicas = 2;
  const ExperimentConfig real = ResolveForThisMachine(config, 10 * kMegabyte);
  EXPECT_EQ(real.system.memory.blocks_override, (10 * kMegabyte - kWeightBytes) / 2 / kBlockBytes);
}

TEST(ResolveForThisMachineTest, RefusesReplicasOfAGrid) {
  ExperimentConfig config = Experiment("");
  config.system.replicas = 2;
  config.system.parallelism.tensor = 2;
  EXPECT_THAT(ErrorOf(config, 10 * kMegabyte),
              HasSubstr("system.replicas: is 2 in a real world with 2 ranks; allowed: 1, or "
                        "world.real.device cpu with one rank"));
}

// Its share of a block: 16 tokens x layers x (key + value) x heads x dimensions, in the bf16 of the
// served model's cache. Replicas compute with the same weights.
TEST(ResolveForThisMachineTest, ADraftModelTakesItsShareOfTheMemory) {
  const std::string file = TWIN_SOURCE_DIR "/tests/golden/models/tiny-llama/config.json";
  const ModelSpec draft = ReadNamedShape(file, false);
  ExperimentConfig config = Experiment("utilization: 1 activation_bytes: 0");
  SpeculationConfig drafts;
  drafts.rules = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 2};
  drafts.draft_model = file;
  config.speculation = drafts;
  const std::int64_t block =
      kBlockBytes + 16 * std::int64_t{draft.layers} * 2 * draft.kv_heads * draft.head_dim * 2;
  const std::int64_t weights = kWeightBytes + WeightBytesPerRank(draft, {}, 0);
  EXPECT_EQ(ResolveForThisMachine(config, 10 * kMegabyte).system.memory.blocks_override,
            (10 * kMegabyte - weights) / block);
  config.system.replicas = 2;
  EXPECT_EQ(ResolveForThisMachine(config, 10 * kMegabyte).system.memory.blocks_override,
            (10 * kMegabyte - weights) / 2 / block);
}

TEST(ResolveForThisMachineTest, RefusesWhatDoesNotFitWithTheNumbers) {
  EXPECT_THAT(ErrorOf(Experiment("activation_bytes: 0"), kWeightBytes),
              HasSubstr("does not fit: requested"));
  const std::string error =
      ErrorOf(Experiment("blocks_override: 50 activation_bytes: 0"), kWeightBytes + 49 * 2048);
  EXPECT_THAT(error, HasSubstr("50 blocks"));
  EXPECT_THAT(error, HasSubstr("available"));
  EXPECT_EQ(
      ErrorOf(Experiment("blocks_override: 50 activation_bytes: 0"), kWeightBytes + 50 * 2048), "");
}

TEST(AvailableMemoryTest, IsSomeOfThisMachines) {
  EXPECT_GT(AvailableMemory(), kMegabyte);
  EXPECT_LT(AvailableMemory(), std::int64_t{1} << 50);
}

// A reference model of the source tree.
ExperimentConfig WithModel(const std::string& name, const std::string& memory,
                           const std::string& policy) {
  const std::string model = std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/" + name;
  return ParseExperiment(
      "world { real {} } workload { requests: 1 arrivals { kind: all_at_once } shape { prompt { "
      "kind: fixed value: 4 } output { kind: fixed value: 4 } } } policy { " +
          policy + " } system { hardware: 'cpu-generic' model: '" + model + "' memory { " + memory +
          " } } cost { constant { step_s: 1 } }",
      "test", "/");
}

// Two of the four layers have windows. A block of the two others: 16 tokens x 2 layers x (key +
// value) x 2 heads x 16 dimensions x 2 bytes = 4096 bytes, and of all layers 8192. The rule sets
// 20 tokens of the windowed layers aside: 5120 bytes for one request.
TEST(ResolveForThisMachineTest, CountsWindowsThatTheExecutorKeepsInBlocks) {
  const ExperimentConfig real = ResolveForThisMachine(
      WithModel("layered-gpt-oss", "kv_bytes_override: 10000000", "vllm_v1 { max_num_seqs: 1 }"),
      100 * kMegabyte);
  EXPECT_EQ(real.system.memory.blocks_override, (10'000'000 - 5120) / 4096 / 2);
}

// A token of DeepSeek's cache: the vector of 24 numbers and the key of 8, in 3 layers, 2 bytes
// each.
TEST(ResolveForThisMachineTest, CountsCompressedVectors) {
  const ExperimentConfig real = ResolveForThisMachine(
      WithModel("layered-deepseek-v3", "kv_bytes_override: 1000000", "vllm_v1 {}"),
      100 * kMegabyte);
  EXPECT_EQ(real.system.memory.blocks_override, 1'000'000 / (64 * 3 * 32 * 2));
}

TEST(ResolveForThisMachineTest, RefusesStatesWithWhatBeginsInTheMiddle) {
  const auto error = [](const std::string& policy) {
    return ErrorOf(WithModel("layered-qwen3-next", "", policy), 100'000 * kMegabyte);
  };
  EXPECT_EQ(error("vllm_v1 { enable_prefix_caching: false }"), "");
  EXPECT_THAT(error("vllm_v1 { enable_prefix_caching: true }"),
              HasSubstr("recurrent layers, whose states do not allow prefix caching; allowed:"));
  EXPECT_THAT(error("vllm_v0 { preemption_mode: swap }"), HasSubstr("swapping of blocks"));
}

}  // namespace
}  // namespace twin::run
