// The reference models through the CUDA executor, on an emulated device: the objects that a GPU
// runs, but for the kernels' instructions. Attention is the kernel for any shape.
#include <gtest/gtest.h>

#include <cstdlib>

#include "exec/cuda/cublaslt_provider.h"
#include "exec/cuda/cuda_models.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/golden/models/reference_generation.h"

namespace twin {
namespace {

std::unique_ptr<exec::DeviceModel> LoadOnCuda(const testing::ReferenceLoad& load,
                                              kernels::ThreadPool& pool) {
  exec::LoadedCudaModel loaded =
      exec::LoadCudaModel({.config = load.config,
                           .weights = load.directory,
                           .format = load.dtype,
                           .positions = load.positions,
                           .largest_step = {.tokens = 13, .sequences = 3},
                           .tunes = false,
                           .checks_finite = true},
                          pool);
  return std::move(loaded.model);
}

class CudaReferenceModelsTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    cuda_emulation::ResetDevice();
    exec::cuda::SetCublasLtFinder([] {
      return std::make_unique<kernels::cuda::CublasLtLibrary>(cuda_emulation::EmulatedCublasLt());
    });
    if (testing::ReferenceModels().empty()) {
      GTEST_SKIP() << "golden data set not found; set TWIN_SHARED to the folder that holds golden/";
    }
  }
};

TEST_P(CudaReferenceModelsTest, GiveTheReferenceLogitsAndTokens) {
  // Each emulated thread costs about a microsecond: usually the short prompts and a few tokens.
  const bool whole = std::getenv("TWIN_WHOLE_REFERENCES") != nullptr;
  const testing::ReferenceCut cut = whole ? testing::ReferenceCut{} : testing::ReferenceCut{17, 2};
  EXPECT_EQ(testing::ExpectAllReferences(GetParam(), LoadOnCuda, cut), 27);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaReferenceModelsTest,
                         ::testing::Values(DType::kBf16, DType::kFp16),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

}  // namespace
}  // namespace twin
