// The CUDA executor on an emulated device: its own objects, the kernels' arithmetic by the CPU.
#include "exec/cuda/cuda_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/input_error.h"
#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "tests/unit/exec_cuda/emulated_model.h"

namespace twin::exec::cuda {
namespace {

using testing::EmulatedModelTest;
using ::testing::HasSubstr;
using testing::Prompts;

class CudaExecutorTest : public EmulatedModelTest {};

GenerationOptions Options(const PolicyConfig& policy, DType dtype = DType::kBf16) {
  return {.policy = policy, .kv_dtype = dtype, .block_size = 4};
}

std::vector<std::vector<std::int32_t>> OutputsOf(DeviceModel& model,
                                                 const GenerationOptions& options,
                                                 GenerationCounts* counts = nullptr) {
  std::vector<Generation> generations = Prompts();
  const GenerationCounts counted = Generate(model, generations, options);
  if (counts != nullptr) *counts = counted;
  std::vector<std::vector<std::int32_t>> outputs;
  for (const Generation& generation : generations) outputs.push_back(generation.output);
  return outputs;
}

TEST_F(CudaExecutorTest, PoliciesChunksAndSwapsChangeNoToken) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{.max_num_seqs = 1}));
  const auto batched = OutputsOf(*model, Options(VllmV1Config{}));
  EXPECT_EQ(batched, plain);
  EXPECT_EQ(OutputsOf(*model, Options(VllmV1Config{.max_num_batched_tokens = 7})), plain);
  EXPECT_EQ(OutputsOf(*model, Options(OrcaConfig{})), plain);
  EXPECT_EQ(OutputsOf(*model, Options(SarathiConfig{.chunk_size = 9})), plain);
  EXPECT_EQ(OutputsOf(*model, Options(VllmV1Config{.enable_prefix_caching = true})), plain);
  GenerationCounts counts;
  GenerationOptions tight =
      Options(VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap});
  tight.blocks = 11;
  tight.host_blocks = 40;
  EXPECT_EQ(OutputsOf(*model, tight, &counts), plain);
  EXPECT_GT(counts.swapped_blocks, 0);
  GenerationOptions recomputing = Options(VllmV1Config{});
  recomputing.blocks = 9;
  EXPECT_EQ(OutputsOf(*model, recomputing, &counts), plain);
  EXPECT_GT(counts.preemptions, 0);
}

TEST_F(CudaExecutorTest, StepsPlannedAheadTakeTheirTokensOnTheDevice) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{}));
  GenerationOptions ahead = Options(VllmV1Config{.async_scheduling = true});
  EXPECT_EQ(OutputsOf(*model, ahead), plain);
  ahead.blocks = 9;  // preempted with steps in flight
  EXPECT_EQ(OutputsOf(*model, ahead), plain);
}

TEST_F(CudaExecutorTest, ReplayedGraphsComputeWhatLaunchedKernelsDo) {
  const auto graphs = Load({.graphs = true});
  const auto replayed = OutputsOf(*graphs, Options(VllmV1Config{.async_scheduling = true}));
  EXPECT_GT(cuda_emulation::Counts().graph_launches, 0);
  const auto launched = OutputsOf(*Load({.graphs = false}), Options(VllmV1Config{}));
  EXPECT_EQ(replayed, launched);
}

TEST_F(CudaExecutorTest, TokensAreThoseOfTheCpuInSixteenBits) {
  // Weights of a width that makes one token stand out: rounding flips none of these.
  const auto on_device = OutputsOf(*Load({}), Options(VllmV1Config{}));
  const auto on_cpu = OutputsOf(*LoadOnCpu(DType::kBf16), Options(VllmV1Config{}));
  std::size_t equal = 0;
  std::size_t all = 0;
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    for (std::size_t j = 0; j < on_cpu[i].size(); ++j, ++all)
      equal += on_cpu[i][j] == on_device[i][j];
  }
  EXPECT_GT(equal, all * 8 / 10);
}

TEST_F(CudaExecutorTest, AStepMayBeLargerThanTheLargestExpected) {
  const auto small = Load({.largest_step = {.tokens = 4, .sequences = 1}});
  EXPECT_EQ(OutputsOf(*small, Options(VllmV1Config{.async_scheduling = true})),
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
  const std::int64_t before = cuda_emulation::Counts().kernels;
  EXPECT_GE(operations->RunGemms(3).sum(), 0);
  EXPECT_GE(operations->RunHead(2), 0);
  EXPECT_GE(operations->RunOther(5).sum(), 0);
  EXPECT_GE(operations->RunAttention(std::vector{ChunkItem(10, 30, true), DecodeItem(50)}), 0);
  EXPECT_GE(operations->RunBlockCopies(3), 0);
  EXPECT_GT(cuda_emulation::Counts().kernels, before);
}

TEST_F(CudaExecutorTest, NothingIsLeftOnTheDevice) {
  {
    const auto model = Load({});
    OutputsOf(*model, Options(VllmV1Config{.async_scheduling = true}));
  }
  EXPECT_EQ(cuda_emulation::DeviceBytesInUse(), 0U);
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);
}

TEST_F(CudaExecutorTest, MemoryThatDoesNotSufficeIsNamed) {
  const auto model = Load({});
  try {
    model->MakeExecutor({.kv_dtype = DType::kBf16, .block_size = 16, .blocks = 100'000'000});
    FAIL() << "was not refused";
  } catch (const kernels::cuda::DeviceError& error) {
    EXPECT_TRUE(error.out_of_memory());
    EXPECT_THAT(error.what(), HasSubstr("KV cache"));
  }
  cuda_emulation::ResetDevice({.memory_bytes = 10'000});
  EXPECT_THROW(Load({}), kernels::cuda::DeviceError);
}

TEST_F(CudaExecutorTest, ADeviceThatIsNotThereIsRefusedInOneLine) {
  cuda_emulation::ResetDevice({.devices = 0});
  try {
    Load({});
    FAIL() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no GPU"));
  }
  cuda_emulation::ResetDevice({.compute_capability = 75});
  try {
    Load({});
    FAIL() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("compute capability 7.5"));
  }
}

TEST_F(CudaExecutorTest, ADeviceThatBreaksEndsTheStep) {
  const auto model = Load({});
  std::vector<Generation> generations = Prompts();
  GenerationOptions options = Options(VllmV1Config{});
  int steps = 0;
  options.on_step = [&] {
    if (++steps == 3) cuda_emulation::BreakDevice(cudaErrorIllegalAddress);
  };
  EXPECT_THROW(Generate(*model, generations, options), kernels::cuda::DeviceError);
}

TEST_F(CudaExecutorTest, TheCacheThatFitsIsMeasuredBehindALargestStep) {
  cuda_emulation::ResetDevice({.memory_bytes = std::size_t{1} << 30});
  const auto model = Load({});
  const std::size_t used = cuda_emulation::DeviceBytesInUse();
  const std::int64_t bytes = MeasureKvBytes(*model, 0.5);
  EXPECT_LT(bytes, (std::int64_t{1} << 29) - static_cast<std::int64_t>(used));
  EXPECT_GT(bytes, std::int64_t{1} << 28);
  // What it says fits.
  const std::int64_t block = model->CacheShape(DType::kBf16, 1, 16).BlockBytes();
  EXPECT_NO_THROW(model->MakeExecutor({.kv_dtype = DType::kBf16,
                                       .block_size = 16,
                                       .blocks = static_cast<std::int32_t>(bytes / block)}));
}

}  // namespace
}  // namespace twin::exec::cuda
