// What models with weights of fp8 are on an emulated device that multiplies fp8 matrices, where
// every bit counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/input_error.h"
#include "exec/cuda/cublaslt_provider.h"
#include "exec/generation.h"
#include "sched/policy/vllm_v1.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using ::testing::HasSubstr;
using testing::Options;
using testing::OutputsOf;
using ::testing::ThrowsMessage;

class EmulatedFp8ModelTest : public DeviceModelTest {};

std::string LibraryWithoutFp8() {
  SetCublasLtFinder([] {
    kernels::cuda::CublasLtFunctions functions = cuda_emulation::EmulatedCublasLt();
    // As a library from before version 12.9.
    functions.desc_set_attribute = [](cublasLtMatmulDesc_t operation,
                                      cublasLtMatmulDescAttributes_t attribute, const void* value,
                                      std::size_t size) {
      if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_MODE) return CUBLAS_STATUS_INVALID_VALUE;
      return cuda_emulation::EmulatedCublasLt().desc_set_attribute(operation, attribute, value,
                                                                   size);
    };
    return std::make_unique<kernels::cuda::CublasLtLibrary>(functions);
  });
  return "describing a product of fp8 matrices";
}

TEST_F(EmulatedFp8ModelTest, BatchesChunksAndGraphsChangeNoToken) {
  const auto model = Load({.dtype = DType::kFp8});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{.max_num_seqs = 1}));
  EXPECT_EQ(OutputsOf(*model, Options(VllmV1Config{})), plain);
  EXPECT_EQ(OutputsOf(*model, Options(VllmV1Config{.max_num_batched_tokens = 7})), plain);
  EXPECT_EQ(OutputsOf(*model, Options(VllmV1Config{.async_scheduling = true})), plain);
  EXPECT_GT(cuda_emulation::Counts().graph_launches, 0);
  const auto launched = Load({.dtype = DType::kFp8, .graphs = false});
  EXPECT_EQ(OutputsOf(*launched, Options(VllmV1Config{})), plain);
}

TEST_F(EmulatedFp8ModelTest, FastAccumulationIsOfEveryProductOfTheLayersAndOfNoOther) {
  // The matrices of a layer are four, and the head, which has 16 bits, is one.
  const auto before = cuda_emulation::EmulatedCublasLtCalls();
  const auto fast = Load({.dtype = DType::kFp8, .fp8_fast_accumulation = true, .graphs = false});
  const auto tokens = OutputsOf(*fast, Options(VllmV1Config{}));
  const auto after = cuda_emulation::EmulatedCublasLtCalls();
  const int layers = 4 * config_.shape.layers;
  const int fast_products = after.fast_products - before.fast_products;
  EXPECT_GT(fast_products, 0);
  EXPECT_EQ(fast_products * (layers + 1), (after.products - before.products) * layers);
  EXPECT_THAT(exec::DescribeDevice(*fast), HasSubstr("fp8 with fast accumulation"));
  // Graphs and batches compute the same.
  const auto captured = Load({.dtype = DType::kFp8, .fp8_fast_accumulation = true});
  EXPECT_EQ(OutputsOf(*captured, Options(VllmV1Config{.max_num_seqs = 1})), tokens);
}

TEST_F(EmulatedFp8ModelTest, FastAccumulationIsRefusedWithWeightsOfOtherFormats) {
  for (const DType format : {DType::kBf16, DType::kInt4}) {
    EXPECT_THAT([&] { Load({.dtype = format, .fp8_fast_accumulation = true}); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("fp8_fast_accumulation"),
                                                HasSubstr(std::string(Name(format))))));
  }
}

TEST_F(EmulatedFp8ModelTest, WeightsOfLayersTakeHalfOfTheMemory) {
  const std::int64_t wide = Load({})->WorkWith(DType::kBf16).layer_bytes;
  const ModelWork work = Load({.dtype = DType::kFp8})->WorkWith(DType::kBf16);
  const auto model = Load({});
  const ModelWork of_bf16 = model->WorkWith(DType::kBf16);
  EXPECT_EQ(work.layer_weights, of_bf16.layer_weights);
  EXPECT_EQ(work.head_bytes, of_bf16.head_bytes);
  EXPECT_LT(work.layer_bytes, wide * 3 / 4);  // rows of 16 to 48 weights have a scale each
  EXPECT_GE(work.layer_bytes, work.layer_weights);
}

TEST_F(EmulatedFp8ModelTest, NothingIsLeftOnTheDevice) {
  OutputsOf(*Load({.dtype = DType::kFp8}), Options(VllmV1Config{}));
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);
}

TEST_F(EmulatedFp8ModelTest, LibrariesThatHaveNoSuchProductsAreNamedInOneLine) {
  const std::string what = LibraryWithoutFp8();
  EXPECT_THAT([&] { Load({.dtype = DType::kFp8}); },
              ThrowsMessage<InputError>(AllOf(HasSubstr(what), HasSubstr("cuBLASLt 13.1.0"),
                                              HasSubstr("allowed: bf16, int4"))));
  EXPECT_NO_THROW(Load({}));
}

}  // namespace
}  // namespace twin::exec::cuda
