// Steps whose attention needs a plan, as FlashInfer's kernels do: the plan is one of the step's
// inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "exec/cuda/cuda_executor.h"
#include "exec/generation.h"
#include "sched/policy/vllm_v1.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using kernels::cuda::AttentionChoice;
using testing::DeviceModelTest;
using testing::Options;
using testing::Outputs;
using testing::OutputsOf;
using testing::Prompts;

const AttentionChoice kGeneric;
const AttentionChoice kFa2{.decode = AttentionKernel::kFa2, .prefill = AttentionKernel::kFa2};
// The prompts of at least four tokens take kFa3, the others kFa2.
const AttentionChoice kFa3{
    .decode = AttentionKernel::kCudaCore, .prefill = AttentionKernel::kFa3, .fa3_queries_min = 4};

// The model has a layer with a window of eight tokens and one without.
class PlannedAttentionTest : public DeviceModelTest {
 protected:
  PlannedAttentionTest() { config_.layer_windows = {8, 0}; }

  std::unique_ptr<DeviceModel> LoadWith(const AttentionChoice& choice, bool graphs = true) {
    LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                            .weights = folder_.path(),
                                            .positions = 100,
                                            .largest_step = {.tokens = 64, .sequences = 4},
                                            .graphs = graphs,
                                            .tunes = false,
                                            .attention = choice,
                                            .checks_finite = true},
                                           pool_);
    return std::move(loaded.model);
  }

  Outputs OutputsWith(const AttentionChoice& choice, const VllmV1Config& policy,
                      bool graphs = true) {
    return OutputsOf(*LoadWith(choice, graphs), Options(policy));
  }
};

// Request 0 is computed up to `start`; request 1 is at its beginning.
WorkItem Decode(std::int32_t start) {
  return {.request = RequestId{0}, .start = start, .tokens = 1, .emits = true};
}

TEST_F(PlannedAttentionTest, AStepMakesOneCopyToTheDeviceAndTakesNoMemory) {
  for (const AttentionChoice& choice : {kGeneric, kFa2, kFa3}) {
    const auto model = LoadWith(choice);
    const auto executor =
        model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 4, .returns_logits = false});
    executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
    executor->Open(RequestId{1}, std::vector<std::int32_t>{4, 5, 6, 7, 8}, {});
    StepPlan prefill;
    prefill.kv = {{KvOperation::Kind::kAllocate, RequestId{0}, BlockId{0}},
                  {KvOperation::Kind::kAllocate, RequestId{1}, BlockId{1}}};
    prefill.work = {{.request = RequestId{0}, .start = 0, .tokens = 3, .emits = true}};
    StepPlan mixed;
    mixed.work = {Decode(3), {.request = RequestId{1}, .start = 0, .tokens = 5, .emits = true}};
    StepPlan replayed;
    replayed.work = {Decode(4), {.request = RequestId{1}, .start = 5, .tokens = 1, .emits = true}};
    const cuda_emulation::DeviceCounts before = cuda_emulation::Counts();
    const std::int64_t on_host = cuda_emulation::Calls("cudaHostAlloc");
    std::int64_t copies = before.copies_to_device;
    for (const StepPlan* plan : {&prefill, &mixed, &replayed}) {
      executor->Launch(*plan);
      executor->Collect();
      EXPECT_EQ(cuda_emulation::Counts().copies_to_device, ++copies);
    }
    EXPECT_EQ(cuda_emulation::Counts().graph_launches, before.graph_launches + 1);
    EXPECT_EQ(cuda_emulation::Counts().allocations, before.allocations);
    EXPECT_EQ(cuda_emulation::Calls("cudaHostAlloc"), on_host);
  }
}

// Steps launched ahead of the device, mixed ones, and replays.
TEST_F(PlannedAttentionTest, GivesTheTokensOfAttentionWithoutAPlan) {
  const VllmV1Config ahead{.async_scheduling = true};
  const VllmV1Config chunks{.max_num_batched_tokens = 7};
  const auto expected = OutputsWith(kGeneric, ahead);
  for (const AttentionChoice& choice : {kFa2, kFa3}) {
    EXPECT_EQ(OutputsWith(choice, ahead), expected);
    EXPECT_EQ(OutputsWith(choice, ahead, /*graphs=*/false), expected);
    EXPECT_EQ(OutputsWith(choice, chunks), expected);
  }
}

// 32 heads of four prefills are 128 tiles, fewer than the 132 multiprocessors of an H100.
TEST_F(PlannedAttentionTest, FewPrefillsFillTheTilesOfFa3) {
  kernels::cuda::AttentionShape shape{
      .heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 16, .windows = {0}};
  const AttentionChoice wide = BestAttention(shape, 90);
  EXPECT_EQ(wide.prefill, AttentionKernel::kFa3);
  EXPECT_EQ(wide.few_prefills, 5);
  EXPECT_EQ(wide.fa3_queries_min_of_few, 128);
  shape.head_dim = 64;
  EXPECT_EQ(BestAttention(shape, 90).fa3_queries_min_of_few, 192);
  EXPECT_EQ(BestAttention(shape, 80).prefill, AttentionKernel::kFa2);
}

// Ways to compute decodes are measured by the first executor, and kept with the products.
TEST_F(PlannedAttentionTest, DecodesAreMeasuredOnceAndKept) {
  // Heads of a size that kFa2 and kCudaCore serve.
  config_.shape.head_dim = 64;
  config_.rotary_dimensions = 64;
  config_.shape.max_position = 512;
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / "planned_attention_algorithms.tsv";
  std::filesystem::remove(file);
  const auto load = [&](std::int32_t positions) {
    return LoadCudaModel({.config = config_,
                          .seed = 1,
                          .positions = positions,
                          .largest_step = {.tokens = 8, .sequences = 2},
                          .tuned_flops_min = 1e18,
                          .algorithm_cache = file},
                         pool_);
  };
  const auto times_of = [](DeviceModel& model) {
    const auto executor = model.MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 40});
    return dynamic_cast<CudaModel&>(model).device().gemm().decode_times();
  };
  EXPECT_TRUE(times_of(*load(128).model).empty());  // the shortest length is 256
  const kernels::cuda::DecodeTimes measured = times_of(*load(300).model);
  EXPECT_EQ(measured.size(), 10U);  // two numbers, one length, five ways
  const kernels::cuda::DecodeTimes kept = times_of(*load(300).model);
  ASSERT_EQ(kept.size(), measured.size());
  for (const auto& [each, microseconds] : measured) {
    EXPECT_EQ(each.length, 256);
    EXPECT_GT(microseconds, 0);
    EXPECT_NEAR(kept.at(each), microseconds, 1e-6 * microseconds);  // the file has nine digits
  }
}

// A step larger than expected moves the inputs, which graphs were captured with.
TEST_F(PlannedAttentionTest, OfStepsLargerThanExpectedToo) {
  const auto expected = OutputsWith(kGeneric, {});
  LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                          .weights = folder_.path(),
                                          .positions = 100,
                                          .largest_step = {.tokens = 4, .sequences = 1},
                                          .tunes = false,
                                          .attention = kFa3,
                                          .checks_finite = true},
                                         pool_);
  std::vector<Generation> generations = Prompts();
  Generate(*loaded.model, generations,
           {.policy = VllmV1Config{}, .kv_dtype = DType::kBf16, .block_size = 4});
  for (std::size_t i = 0; i < generations.size(); ++i) {
    EXPECT_EQ(generations[i].output, expected[i]);
  }
}

}  // namespace
}  // namespace twin::exec::cuda
