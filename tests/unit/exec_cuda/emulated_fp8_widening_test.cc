// Models whose layers have weights of fp8, on an emulated device that does not multiply matrices of
// fp8: it widens the weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/input_error.h"
#include "exec/cuda/cuda_model.h"
#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "sched/policy/vllm_v1.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec_cuda/device_model.h"
#include "tests/unit/kernels_cuda/test_fp8.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using testing::Generated;
using testing::kSixteenBits;
using testing::Options;
using testing::OptionsOfAllLogits;
using testing::OutputsOf;
using testing::PromptLogits;
using twin::testing::RelativeDistance;

// Makes a row one of numbers of e4m3 times a power of two, the largest one 448: quantizing it gives
// these numbers.
void RoundRow(std::span<float> row) {
  const auto by_size = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const auto largest = std::max_element(row.begin(), row.end(), by_size);
  const float scale = std::exp2(std::ceil(std::log2(std::abs(*largest) / kernels::cuda::kFp8Max)));
  *largest = std::copysign(kernels::cuda::kFp8Max * scale, *largest);
  for (float& value : row) {
    value = kernels::cuda::Fp8ToFloat(kernels::cuda::NearestFp8(value / scale)) * scale;
  }
}

testing::TensorSet TensorsOfFp8(const ModelConfig& config) {
  testing::TensorSet tensors = testing::RandomTensors(config, "model.");
  for (const LayerPlan& layer : PlanTensors(config, "model.").layers) {
    for (const MatrixPlan* matrix : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
      for (const MatrixPart& part : matrix->parts) {
        std::span<float> rest(tensors.values(part.weight));
        const auto columns = static_cast<std::size_t>(matrix->columns);
        for (; !rest.empty(); rest = rest.subspan(columns)) RoundRow(rest.first(columns));
      }
    }
  }
  return tensors;
}

class EmulatedFp8WideningTest : public DeviceModelTest {
 protected:
  void SetUp() override {
    DeviceModelTest::SetUp();
    cuda_emulation::ResetDevice({.compute_capability = 80});
  }

  std::vector<float> CpuLogits() {
    return PromptLogits(
        Generated(*LoadOnCpu(DType::kFp32), OptionsOfAllLogits(VllmV1Config{}, DType::kFp32)));
  }
  // One prompt at a time, up to 20 rows: weights are widened in the product and before it.
  std::vector<float> LogitsOf(DType format, std::int32_t budget) {
    const VllmV1Config policy{.max_num_batched_tokens = budget, .max_num_seqs = 1};
    return PromptLogits(Generated(*Load({.dtype = format}), OptionsOfAllLogits(policy)));
  }
};

TEST_F(EmulatedFp8WideningTest, WeightsThatAreNumbersOfFp8AreNotRounded) {
  folder_.WriteWeights(TensorsOfFp8(config_));
  const std::vector<float> on_cpu = CpuLogits();
  const std::vector<float> wide = LogitsOf(DType::kBf16, 64);
  for (const std::int32_t budget : {64, 16, 7, 1}) {
    const std::vector<float> logits = LogitsOf(DType::kFp8, budget);
    EXPECT_LT(RelativeDistance(logits, on_cpu), kSixteenBits) << budget;
    // The same products in another order: some sums are rounded to the other neighbour in bf16.
    EXPECT_LT(RelativeDistance(logits, wide), 0.01) << budget;
  }
}

TEST_F(EmulatedFp8WideningTest, OtherWeightsAreRoundedToFp8) {
  const std::vector<float> on_cpu = CpuLogits();
  const double of_bf16 = RelativeDistance(LogitsOf(DType::kBf16, 64), on_cpu);
  for (const std::int32_t budget : {64, 7}) {
    const double distance = RelativeDistance(LogitsOf(DType::kFp8, budget), on_cpu);
    // The weights are off by 2.6 percent (root mean square, cuda_scaled_gemm_test), and so is every
    // product: the rounding is seen.
    EXPECT_GT(distance, 2 * of_bf16);
    EXPECT_LT(distance, 0.10);
  }
}

TEST_F(EmulatedFp8WideningTest, GraphsAndBatchesGiveTheTokensOfLaunchedKernels) {
  const auto tokens = [&](bool graphs, const VllmV1Config& policy) {
    return OutputsOf(*Load({.dtype = DType::kFp8, .graphs = graphs}), Options(policy));
  };
  const auto plain = tokens(false, {.max_num_batched_tokens = 8, .max_num_seqs = 1});
  EXPECT_EQ(cuda_emulation::Counts().graph_launches, 0);
  EXPECT_EQ(tokens(true, {.max_num_batched_tokens = 8}), plain);
  EXPECT_EQ(tokens(true, {.max_num_batched_tokens = 8, .async_scheduling = true}), plain);
  EXPECT_GT(cuda_emulation::Counts().graph_launches, 0);
}

// A prompt of 20 tokens and its first output, in two steps of up to 16 or in one. The head, in 16
// bits, is a product of cuBLASLt always.
TEST_F(EmulatedFp8WideningTest, MoreThan16RowsAreMultipliedByCublasLt) {
  const auto model = Load({.dtype = DType::kFp8, .graphs = false});
  const auto products = [&](std::int32_t budget) {
    const int before = cuda_emulation::EmulatedCublasLtCalls().products;
    std::vector<Generation> one(1);
    one[0].prompt.assign(20, 5);
    one[0].tokens_max = 1;
    Generate(*model, one, Options(VllmV1Config{.max_num_batched_tokens = budget}));
    return cuda_emulation::EmulatedCublasLtCalls().products - before;
  };
  EXPECT_EQ(products(16), 1);
  EXPECT_EQ(products(64), 4 * config_.shape.layers + 1);
}

TEST_F(EmulatedFp8WideningTest, OperationsAndTheMeasuredCacheWork) {
  const auto model = Load({.dtype = DType::kFp8});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  for (const std::int64_t tokens : {3, 40}) {
    EXPECT_GE(operations->RunGemms(tokens).sum(), 0);
  }
  EXPECT_GT(MeasureKvBytes(*model, 0.5), 0);
}

TEST_F(EmulatedFp8WideningTest, ProductsAreTunedWhereCublasLtComputesThem) {
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .seed = 1,
                                                .format = DType::kFp8,
                                                .positions = 100,
                                                .largest_step = {.tokens = 40, .sequences = 16},
                                                .tuned_flops_min = 0},
                                               pool_);
  auto& model = dynamic_cast<CudaModel&>(*loaded.model);
  const DeviceLinear& qkv = model.weights().layers.front().qkv;
  const auto measured = [&](std::int64_t tokens) {
    return model.device().gemm().Measured(
        {.tokens = tokens, .outputs = qkv.matrix.rows, .inputs = qkv.matrix.columns});
  };
  EXPECT_FALSE(measured(16));  // widened in the product
  EXPECT_TRUE(measured(40));
}

TEST_F(EmulatedFp8WideningTest, WeightsTakeTheMemoryThatTheyTakeWhereTheyAreMultiplied) {
  const auto work = [&](int capability) {
    cuda_emulation::ResetDevice({.compute_capability = capability});
    return Load({.dtype = DType::kFp8})->WorkWith(DType::kBf16);
  };
  const ModelWork widened = work(89);
  const ModelWork multiplied = work(90);
  EXPECT_EQ(widened.layer_weights, multiplied.layer_weights);
  EXPECT_EQ(widened.layer_bytes, multiplied.layer_bytes);
}

TEST_F(EmulatedFp8WideningTest, FastAccumulationIsRefusedInOneLineThatNamesTheDevice) {
  for (const int capability : {80, 89}) {
    cuda_emulation::ResetDevice({.compute_capability = capability});
    EXPECT_THAT(
        [&] { Load({.dtype = DType::kFp8, .fp8_fast_accumulation = true}); },
        ::testing::ThrowsMessage<InputError>(AllOf(
            ::testing::StartsWith("fp8_fast_accumulation: is for devices of compute capability "
                                  "9.0, which multiply fp8 matrices; this is Emulated GPU"),
            ::testing::EndsWith("; allowed: false"))));
  }
}

}  // namespace
}  // namespace twin::exec::cuda
