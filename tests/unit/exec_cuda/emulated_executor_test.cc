// Faults of a device, and what is left on it: only an emulated one can be made to fail.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <memory>
#include <span>
#include <sstream>
#include <vector>

#include "core/input_error.h"
#include "exec/cuda/activations.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/generation.h"
#include "kernels/cuda/kernel_overlap.h"
#include "kernels/cuda/stream.h"
#include "kernels/float_formats.h"
#include "sched/policy/vllm_v1.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/support/relative_distance.h"
#include "tests/support/safetensors_writer.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using ::testing::HasSubstr;
using testing::Prompts;

class EmulatedExecutorTest : public DeviceModelTest {
 protected:
  // A broken device takes nothing back.
  void TearDown() override { cuda_emulation::ResetDevice(); }
};

GenerationOptions Options(const VllmV1Config& policy) {
  return {.policy = policy, .kv_dtype = DType::kBf16, .block_size = 4};
}

TEST_F(EmulatedExecutorTest, NothingIsLeftOnTheDevice) {
  {
    const auto model = Load({});
    std::vector<Generation> generations = Prompts();
    Generate(*model, generations, Options({.async_scheduling = true}));
  }
  EXPECT_EQ(cuda_emulation::DeviceBytesInUse(), 0U);
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);
}

TEST_F(EmulatedExecutorTest, KernelsWithMomentsBetweenThemDoNotOverlap) {
  EXPECT_TRUE(kernels::cuda::KernelsOverlap());
  {
    const kernels::cuda::KernelsApart apart;
    EXPECT_FALSE(kernels::cuda::KernelsOverlap());
  }
  EXPECT_TRUE(kernels::cuda::KernelsOverlap());
}

// A prompt of three tokens, then what was sampled, one a step.
StepPlan PlanOfStep(std::int32_t number) {
  StepPlan plan;
  if (number == 0) plan.kv.push_back({KvOperation::Kind::kAllocate, RequestId{0}, BlockId{0}});
  plan.work.push_back({.request = RequestId{0},
                       .start = number == 0 ? 0 : 2 + number,
                       .tokens = number == 0 ? 3 : 1,
                       .emits = true});
  return plan;
}

TEST_F(EmulatedExecutorTest, AStepOnItsWayIsNotCollectableAndNoFailure) {
  const auto model = Load({});
  const auto executor = model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 2});
  executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
  const StepPlan plan = PlanOfStep(0);
  executor->Launch(plan);
  cuda_emulation::FailCall("cudaEventQuery", 1, cudaErrorNotReady);
  EXPECT_FALSE(executor->Collectable());
  // Launchers of libraries answer with the last error of whoever came before.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(executor->Collectable());
  EXPECT_EQ(executor->Collect().sampled.size(), 1U);
}

void ExpectStepsToTakeNoMemory(DeviceModel& model) {
  const auto executor =
      model.MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 2, .returns_logits = false});
  executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {.logprobs = 20});
  const std::int64_t on_device = cuda_emulation::Calls("cudaMalloc");
  const std::int64_t on_host = cuda_emulation::Calls("cudaHostAlloc");
  for (std::int32_t step = 0; step < 12; ++step) {
    const StepPlan plan = PlanOfStep(step);
    executor->Launch(plan);
    EXPECT_EQ(executor->Collect().logprobs.size(), 21U);
  }
  EXPECT_EQ(cuda_emulation::Calls("cudaMalloc"), on_device);
  EXPECT_EQ(cuda_emulation::Calls("cudaHostAlloc"), on_host);
}

TEST_F(EmulatedExecutorTest, StepsTakeNoMemoryOfDeviceOrHost) {
  ExpectStepsToTakeNoMemory(*Load({}));
}

// How many kernels are launched for the first time by a prefill, decodes with log-probabilities, a
// chunk beside a decode, and its rest beside another one.
std::int64_t KernelsLoadedBySteps(DeviceModel& model) {
  const auto executor =
      model.MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 8, .returns_logits = false});
  const std::int64_t loaded = cuda_emulation::Counts().functions;
  executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {.logprobs = 2});
  executor->Open(RequestId{1}, std::vector<std::int32_t>(13, 4), {.temperature = 1});
  const auto run = [&](const StepPlan& plan) {
    executor->Launch(plan);
    executor->Collect();
  };
  for (std::int32_t step = 0; step < 3; ++step) run(PlanOfStep(step));
  StepPlan chunk = PlanOfStep(3);
  chunk.kv.push_back({KvOperation::Kind::kAllocate, RequestId{1}, BlockId{1}});
  chunk.work.push_back({.request = RequestId{1}, .start = 0, .tokens = 9});
  run(chunk);
  StepPlan rest = PlanOfStep(4);
  rest.work.push_back({.request = RequestId{1}, .start = 9, .tokens = 4, .emits = true});
  run(rest);
  return cuda_emulation::Counts().functions - loaded;
}

testing::DeviceLoad Warmed(DType format) {
  return {.dtype = format, .largest_step = {.tokens = 16, .sequences = 2}, .warmed_bytes_min = 0};
}

TEST_F(EmulatedExecutorTest, NoKernelIsLoadedDuringARun) {
  for (const DType format : {DType::kBf16, DType::kFp8, DType::kInt4}) {
    cuda_emulation::ResetDevice();
    EXPECT_EQ(KernelsLoadedBySteps(*Load(Warmed(format))), 0) << Name(format);
  }
  cuda_emulation::ResetDevice({.compute_capability = 80});
  EXPECT_EQ(KernelsLoadedBySteps(*Load(Warmed(DType::kFp8))), 0) << "widened";
  cuda_emulation::ResetDevice();
  testing::DeviceLoad launched = Warmed(DType::kBf16);
  launched.graphs = false;
  EXPECT_EQ(KernelsLoadedBySteps(*Load(launched)), 0);
  cuda_emulation::ResetDevice();
  EXPECT_GT(KernelsLoadedBySteps(*Load({})), 0);
}

TEST_F(EmulatedExecutorTest, NoKernelOfMixturesIsLoadedDuringARun) {
  config_ = ParseModelConfig(testing::kMixtralConfig, "config.json");
  folder_.WriteWeights(testing::RandomTensors(config_, "model."));
  EXPECT_EQ(KernelsLoadedBySteps(*Load(Warmed(DType::kBf16))), 0);
}

TEST_F(EmulatedExecutorTest, StepsOfMixturesTakeNoMemoryOfDeviceOrHost) {
  config_ = ParseModelConfig(testing::kMixtureConfig, "config.json");
  folder_.WriteWeights(testing::RandomTensors(config_, "model."));
  ExpectStepsToTakeNoMemory(*Load({}));
}

// By hand, in rows of 16 elements where not said otherwise, padded to 256 bytes each: the residual
// stream, its norm, queries with keys and values (32), attention, the shared expert's inner (48)
// and activated rows (32), logits of 2 rows (32 of fp32), the router's (8 of fp32), the routing
// of 6 pairs among 5 experts (4 arrays of 32 bytes and 32), inner (32), activated and output rows
// of 6 pairs, and the shared expert's output.
TEST_F(EmulatedExecutorTest, ActivationsOfMixturesHaveARowForEachPair) {
  const Activations activations(
      {.hidden = 16,
       .qkv = 32,
       .queries = 16,
       .inner = 40,
       .activated = 20,
       .logits = 29,
       .mixture = {.experts = 5, .experts_per_row = 2, .inner = 24, .activated = 12}});
  EXPECT_EQ(activations.BytesOf(3, 2), 256 * (1 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 1));
}

// A token, the count of logits that are not finite, and where asked for the likeliest tokens.
TEST_F(EmulatedExecutorTest, LogitsStayOnTheDevice) {
  const auto model = Load({});
  const auto executor =
      model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 2, .returns_logits = false});
  for (const std::int32_t logprobs : {-1, 0, 20}) {
    executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {.logprobs = logprobs});
    const std::int64_t before = cuda_emulation::Counts().bytes_to_host;
    StepPlan plan = PlanOfStep(0);
    executor->Launch(plan);
    executor->Collect();
    const std::size_t told = logprobs < 0 ? 0 : sizeof(kernels::TopLogits);
    EXPECT_EQ(cuda_emulation::Counts().bytes_to_host - before,
              static_cast<std::int64_t>(2 * sizeof(std::int32_t) + told));
    executor->Close(RequestId{0});
  }
}

// Events between the operations cost time: one step in sixteen of a kind has them.
TEST_F(EmulatedExecutorTest, FewLaunchedStepsAreTimedOperationByOperation) {
  const auto model = Load({.graphs = false});
  const auto executor = model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 3});
  executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
  std::vector<std::int64_t> events;  // recorded by each step
  std::vector<StepParts> parts;
  for (std::int32_t step = 0; step < 35; ++step) {
    StepPlan plan = PlanOfStep(step);
    // Tokens 16 and 32 begin a block.
    if (step > 0 && (2 + step) % 16 == 0) {
      plan.kv.push_back({KvOperation::Kind::kAllocate, RequestId{0}, BlockId{(2 + step) / 16}});
    }
    const std::int64_t before = cuda_emulation::Calls("cudaEventRecordWithFlags");
    executor->Launch(plan);
    parts.push_back(executor->Collect().parts);
    events.push_back(cuda_emulation::Calls("cudaEventRecordWithFlags") - before);
  }
  // The prompt, the first decode, and of the decodes with one page and with two every sixteenth.
  std::vector<std::size_t> detailed;
  for (std::size_t step = 0; step < events.size(); ++step) {
    if (events[step] > 10) detailed.push_back(step);
  }
  EXPECT_THAT(detailed, ::testing::ElementsAre(0U, 1U, 14U, 30U));
  // The others know their parts from these.
  for (const StepParts& each : parts) {
    EXPECT_GT(each[StepPart::kGemm], Duration{0});
    EXPECT_GT(each[StepPart::kAttention], Duration{0});
  }
}

TEST_F(EmulatedExecutorTest, MemoryThatDoesNotSufficeIsNamed) {
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

TEST_F(EmulatedExecutorTest, ADeviceThatIsNotThereIsRefusedInOneLine) {
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

TEST_F(EmulatedExecutorTest, ADeviceThatBreaksEndsTheStep) {
  const auto model = Load({});
  std::vector<Generation> generations = Prompts();
  GenerationOptions options = Options({});
  int steps = 0;
  options.on_step = [&] {
    if (++steps == 3) cuda_emulation::BreakDevice(cudaErrorIllegalAddress);
  };
  EXPECT_THROW(Generate(*model, generations, options), kernels::cuda::DeviceError);
}

TEST_F(EmulatedExecutorTest, ADeviceThatHangsEndsTheStepByNameAndIsNotWaitedForAgain) {
  kernels::cuda::SetDevicePatience(std::chrono::milliseconds(20));
  {
    const auto model = Load({});
    const auto executor = model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 2});
    executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
    executor->Launch(PlanOfStep(0));
    executor->Collect();
    cuda_emulation::HangDevice();
    executor->Launch(PlanOfStep(1));
    try {
      executor->Collect();
      FAIL() << "the device does not hang";
    } catch (const kernels::cuda::DeviceError& error) {
      EXPECT_STREQ(error.what(),
                   "step 1 of 1 rows and 1 sequences, replayed from a graph: not done within "
                   "0.02 s; the device hangs");
    }
    EXPECT_TRUE(kernels::cuda::DeviceHangs());
  }
  // Not by a destructor either.
  EXPECT_EQ(cuda_emulation::Counts().blocked_for_ever, 0);
  kernels::cuda::SetDevicePatience(kernels::cuda::kDevicePatience);
}

TEST_F(EmulatedExecutorTest, AsManyStepsAsMayBeInFlightAreLaunchedWithoutAWait) {
  kernels::cuda::SetDevicePatience(std::chrono::milliseconds(20));
  const auto model = Load({});
  const auto executor = model->MakeExecutor({.kv_dtype = DType::kBf16, .blocks = 2});
  executor->Open(RequestId{0}, std::vector<std::int32_t>{1, 2, 3}, {});
  cuda_emulation::HangDevice();
  for (std::size_t step = 0; step < CudaExecutor::kStepsMax; ++step) {
    executor->Launch(PlanOfStep(static_cast<std::int32_t>(step)));
  }
  EXPECT_THROW(executor->Collect(), kernels::cuda::HungDevice);
  EXPECT_EQ(cuda_emulation::Counts().blocked_for_ever, 0);
  cuda_emulation::ResetDevice();
  kernels::cuda::SetDevicePatience(kernels::cuda::kDevicePatience);
}

TEST_F(EmulatedExecutorTest, ProductsAreTunedBeforeACacheTakesTheMemory) {
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .seed = 1,
                                                .positions = 100,
                                                .largest_step = {.tokens = 600, .sequences = 4},
                                                .tuned_flops_min = 0},
                                               pool_);
  auto& model = dynamic_cast<CudaModel&>(*loaded.model);
  const DeviceLayer& layer = model.weights().layers.front();
  const auto measured = [&](std::int64_t tokens) {
    return model.device().gemm().Measured(
        {.tokens = tokens, .outputs = layer.qkv.matrix.rows, .inputs = layer.qkv.matrix.columns});
  };
  EXPECT_TRUE(measured(512));
  EXPECT_TRUE(measured(600));
  EXPECT_FALSE(measured(1024));
  EXPECT_TRUE(measured(4));  // a decode's
  EXPECT_FALSE(measured(3));
}

TEST_F(EmulatedExecutorTest, ProductsThatCannotBeTunedForLackOfMemoryAreNot) {
  const auto model = Load({});
  auto& on_device = dynamic_cast<CudaModel&>(*model);
  cuda_emulation::FailCall("cudaMalloc", 1, cudaErrorMemoryAllocation);
  EXPECT_THAT(on_device.TuneProducts(), ::testing::IsEmpty());
  const DeviceLayer& layer = on_device.weights().layers.front();
  EXPECT_FALSE(on_device.device().gemm().Measured(
      {.tokens = 1, .outputs = layer.qkv.matrix.rows, .inputs = layer.qkv.matrix.columns}));
  EXPECT_TRUE(on_device.device().gemm().Measured(
      {.tokens = 1, .outputs = layer.up.matrix.rows, .inputs = layer.up.matrix.columns}));
}

TEST_F(EmulatedExecutorTest, AProductThatFailsWhileItIsTunedIsReportedAndTheOthersAreKept) {
  const std::filesystem::path cache = folder_.path() / "gemm_algorithms.tsv";
  // What cuBLASLt suggests fails; one token is multiplied by a kernel of our own.
  cuda_emulation::FailCublasLtAlgorithms({0, 1});
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .positions = 100,
                                                .largest_step = {.tokens = 64, .sequences = 1},
                                                .tuned_flops_min = 0,
                                                .algorithm_cache = cache},
                                               pool_);
  cuda_emulation::FailCublasLtAlgorithms({});
  EXPECT_THAT(loaded.warnings, ::testing::Contains(HasSubstr("and 64 tokens is not tuned: ")));
  std::ostringstream kept;
  kept << std::ifstream(cache).rdbuf();
  EXPECT_THAT(kept.str(), HasSubstr("\tskinny\t"));
}

// Buckets reach over the number of sequences, and the largest step has room for their padding.
TEST_F(EmulatedExecutorTest, EveryNumberOfDecodesHasABucket) {
  const auto buckets = [&](StepSizes largest) {
    return Load({.largest_step = largest})->decode_buckets();
  };
  EXPECT_THAT(buckets({.tokens = 64, .sequences = 3}), ::testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(buckets({.tokens = 64, .sequences = 9}), ::testing::ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(buckets({.tokens = 9, .sequences = 9}), ::testing::ElementsAre(1, 2, 4, 8, 16));
  const auto model = Load({.largest_step = {.tokens = 64, .sequences = 3}});
  std::vector<Generation> three = Prompts();
  three.resize(3);
  const auto before = cuda_emulation::Counts().graph_launches;
  Generate(*model, three, Options({}));
  EXPECT_GT(cuda_emulation::Counts().graph_launches, before);
}

TEST_F(EmulatedExecutorTest, TheCacheThatFitsIsMeasuredBehindALargestStep) {
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

TEST_F(EmulatedExecutorTest, RefusesFp16InOneLine) {
  try {
    (void)Load({.dtype = DType::kFp16});
    ADD_FAILURE() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "the weights' format: fp16, which the CUDA executor does not compute with; "
                 "allowed: bf16, fp8, int4");
  }
}

TEST_F(EmulatedExecutorTest, MatricesOfFp16AreRoundedWithAWarning) {
  const testing::TensorSet tensors = testing::RandomTensors(config_, "model.");
  std::vector<StoredTensor> stored = tensors.Stored();
  std::list<std::vector<std::uint16_t>> narrow;
  for (StoredTensor& tensor : stored) {
    if (tensor.shape.size() < 2) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    Widen(tensor, 0, values);
    std::ranges::transform(values, std::back_inserter(narrow.emplace_back()), kernels::FloatToFp16);
    tensor.type = StoredType::kF16;
    tensor.bytes = std::as_bytes(std::span(narrow.back()));
  }
  testing::WriteSafetensors(folder_.path() / "model.safetensors", stored);
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .weights = folder_.path(),
                                                .positions = 100,
                                                .largest_step = {.tokens = 64, .sequences = 4},
                                                .tunes = false},
                                               pool_);
  EXPECT_THAT(loaded.warnings,
              ::testing::Contains(HasSubstr("matrices of fp16 are rounded to bf16")));
  const auto logits = [](DeviceModel& model, DType kv_dtype) {
    return testing::PromptLogits(
        testing::Generated(model, testing::OptionsOfAllLogits(VllmV1Config{}, kv_dtype)));
  };
  EXPECT_LT(twin::testing::RelativeDistance(logits(*loaded.model, DType::kBf16),
                                            logits(*LoadOnCpu(DType::kFp32), DType::kFp32)),
            testing::kSixteenBits);
}

TEST_F(EmulatedExecutorTest, RefusesMixturesOfFp8InOneLine) {
  config_ = ParseModelConfig(testing::kMixtralConfig, "config.json");
  try {
    (void)Load({.dtype = DType::kFp8});
    ADD_FAILURE() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "the weights' format: fp8, in which the CUDA executor does not compute mixtures of "
        "experts; allowed: bf16, int4");
  }
}

TEST_F(EmulatedExecutorTest, RefusesMoreExpertsPerTokenThanItRoutes) {
  config_ = ParseModelConfig(testing::kMixtralConfig, "config.json");
  config_.shape.name = "wide-mixtral";
  config_.shape.moe.experts = 64;
  config_.shape.moe.experts_per_token = 33;
  try {
    (void)Load({});
    ADD_FAILURE() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "wide-mixtral: has 33 experts per token; allowed on a CUDA device: up to 32");
  }
}

TEST_F(EmulatedExecutorTest, DecodesAreReplayedFromGraphs) {
  const auto model = Load({});
  std::vector<Generation> generations = Prompts();
  Generate(*model, generations, Options({}));
  EXPECT_GT(cuda_emulation::Counts().graph_launches, 0);
}

}  // namespace
}  // namespace twin::exec::cuda
