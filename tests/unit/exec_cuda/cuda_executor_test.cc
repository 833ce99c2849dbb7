// The CUDA executor: on an emulated device, where kernels are carried out by the CPU, and on a GPU.
#include "exec/cuda/cuda_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using testing::Prompts;

class CudaExecutorTest : public DeviceModelTest {};

using Outputs = std::vector<std::vector<std::int32_t>>;

GenerationOptions Options(const PolicyConfig& policy, DType dtype = DType::kBf16) {
  return {.policy = policy, .kv_dtype = dtype, .block_size = 4};
}

Outputs OutputsOf(DeviceModel& model, const GenerationOptions& options,
                  GenerationCounts* counts = nullptr) {
  std::vector<Generation> generations = Prompts();
  const GenerationCounts counted = Generate(model, generations, options);
  if (counts != nullptr) *counts = counted;
  Outputs outputs;
  for (const Generation& generation : generations) outputs.push_back(generation.output);
  return outputs;
}

double ShareOfEqualTokens(const Outputs& a, const Outputs& b) {
  std::size_t equal = 0;
  std::size_t all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j, ++all) equal += a[i][j] == b[i][j] ? 1U : 0U;
  }
  return static_cast<double>(equal) / static_cast<double>(all);
}

// Libraries of a real device may round otherwise in another batch, and of these random models two
// tokens are sometimes close: behind such a place outputs go apart.
void ExpectAgree(const Outputs& outputs, const Outputs& expected) {
  if (testing::DeviceIsExact()) {
    EXPECT_EQ(outputs, expected);
  } else {
    EXPECT_GT(ShareOfEqualTokens(outputs, expected), 0.6);
  }
}

TEST_F(CudaExecutorTest, PoliciesChunksAndSwapsChangeNoToken) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{.max_num_seqs = 1}));
  const auto batched = OutputsOf(*model, Options(VllmV1Config{}));
  ExpectAgree(batched, plain);
  ExpectAgree(OutputsOf(*model, Options(VllmV1Config{.max_num_batched_tokens = 7})), plain);
  ExpectAgree(OutputsOf(*model, Options(OrcaConfig{})), plain);
  ExpectAgree(OutputsOf(*model, Options(SarathiConfig{.chunk_size = 9})), plain);
  ExpectAgree(OutputsOf(*model, Options(VllmV1Config{.enable_prefix_caching = true})), plain);
  GenerationCounts counts;
  GenerationOptions tight =
      Options(VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap});
  tight.blocks = 11;
  tight.host_blocks = 40;
  ExpectAgree(OutputsOf(*model, tight, &counts), plain);
  EXPECT_GT(counts.swapped_blocks, 0);
  GenerationOptions recomputing = Options(VllmV1Config{});
  recomputing.blocks = 9;
  ExpectAgree(OutputsOf(*model, recomputing, &counts), plain);
  EXPECT_GT(counts.preemptions, 0);
}

TEST_F(CudaExecutorTest, StepsPlannedAheadTakeTheirTokensOnTheDevice) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{}));
  GenerationOptions ahead = Options(VllmV1Config{.async_scheduling = true});
  ExpectAgree(OutputsOf(*model, ahead), plain);
  ahead.blocks = 9;  // preempted with steps in flight
  ExpectAgree(OutputsOf(*model, ahead), plain);
}

TEST_F(CudaExecutorTest, ReplayedGraphsComputeWhatLaunchedKernelsDo) {
  const auto graphs = Load({.graphs = true});
  const auto replayed = OutputsOf(*graphs, Options(VllmV1Config{.async_scheduling = true}));
  const auto launched = OutputsOf(*Load({.graphs = false}), Options(VllmV1Config{}));
  ExpectAgree(replayed, launched);
}

TEST_F(CudaExecutorTest, TokensAreThoseOfTheCpuInSixteenBits) {
  // Weights of a width that makes one token stand out: rounding flips none of these.
  const auto on_device = OutputsOf(*Load({}), Options(VllmV1Config{}));
  const auto on_cpu = OutputsOf(*LoadOnCpu(DType::kBf16), Options(VllmV1Config{}));
  EXPECT_GT(ShareOfEqualTokens(on_cpu, on_device), testing::DeviceIsExact() ? 0.8 : 0.6);
}

TEST_F(CudaExecutorTest, AStepMayBeLargerThanTheLargestExpected) {
  const auto small = Load({.largest_step = {.tokens = 4, .sequences = 1}});
  ExpectAgree(OutputsOf(*small, Options(VllmV1Config{.async_scheduling = true})),
              OutputsOf(*Load({}), Options(VllmV1Config{})));
}

TEST_F(CudaExecutorTest, EveryNanosecondOfAStepBelongsToAPart) {
  const auto model = Load({});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 100, .items = 4});
  const StepParts mixed =
      steps.Run(std::vector{ChunkItem(10, 8, true), DecodeItem(17), ChunkItem(0, 3, false)});
  EXPECT_GT(mixed[StepPart::kBuild], Duration{0});
  EXPECT_EQ(mixed[StepPart::kSchedule], Duration{0});
  const StepParts decodes = steps.RunDecodes(3, 8, 4);
  EXPECT_GT(decodes.device(), Duration{0});
}

TEST_F(CudaExecutorTest, OperationsRunThroughAllLayers) {
  const auto model = Load({});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  EXPECT_GE(operations->RunGemms(3).sum(), 0);
  EXPECT_GE(operations->RunHead(2), 0);
  EXPECT_GE(operations->RunOther(5).sum(), 0);
  EXPECT_GE(operations->RunAttention(std::vector{ChunkItem(10, 30, true), DecodeItem(50)}), 0);
  EXPECT_GE(operations->RunBlockCopies(3), 0);
}

}  // namespace
}  // namespace twin::exec::cuda
