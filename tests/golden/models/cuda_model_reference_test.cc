// The reference models through the CUDA executor, on an emulated device: the objects that a GPU
// runs, but for the kernels' instructions. Attention is the kernel for any shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "exec/cuda/cublaslt_provider.h"
#include "exec/cuda/load_model.h"
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

// Each emulated thread costs about a microsecond: usually the short prompts and a few tokens.
testing::ReferenceCut Cut() {
  const bool whole = std::getenv("TWIN_WHOLE_REFERENCES") != nullptr;
  return whole ? testing::ReferenceCut{} : testing::ReferenceCut{17, 2};
}

TEST_P(CudaReferenceModelsTest, GiveTheReferenceLogitsAndTokens) {
  EXPECT_EQ(testing::ExpectAllReferences(GetParam(), LoadOnCuda, Cut()), 27);
}

TEST_P(CudaReferenceModelsTest, GiveTheLogitsOfHeadsThatAttentionKernelsTake) {
  for (const std::filesystem::path& folder : testing::AttentionReferences()) {
    SCOPED_TRACE(folder.filename());
    testing::ExpectReference(Cut().Of(testing::ReadReference(folder)), GetParam(), LoadOnCuda);
  }
}

// The distances of all rows of logits that the reference has, ascending.
std::vector<double> LogitDistances(const testing::ReferenceModel& reference, DType dtype) {
  const std::vector<exec::Generation> generations = testing::GenerateFor(
      reference, dtype, testing::SmallChunks(dtype, exec::KeptLogits::kAll), LoadOnCuda);
  std::vector<double> distances;
  for (std::size_t i = 0; i < generations.size(); ++i) {
    const testing::ReferencePrompt& expected = reference.prompts[i];
    distances.push_back(
        testing::RelativeDistance(generations[i].last_logits, expected.last_logits));
    for (std::size_t j = 0; j < expected.all_logits.size(); ++j) {
      distances.push_back(
          testing::RelativeDistance(generations[i].all_logits[j], expected.all_logits[j]));
    }
  }
  std::sort(distances.begin(), distances.end());
  return distances;
}

// Rounding to 16 bits lets a few tokens take other experts, which changes their logits by about a
// half: mixtures state no tolerance. The logits of most tokens must agree to the rounding of the
// format. A mistake changes those of all tokens (top 1 for top 2: by 0.98).
TEST_P(CudaReferenceModelsTest, GiveMostOfTheLogitsOfMixtures) {
  std::int32_t compared = 0;
  for (const std::string& name : testing::ReferenceNames()) {
    const testing::ReferenceModel reference =
        testing::ReferenceCut{33, 1}.Of(testing::ReadReference(testing::ReferenceModels() / name));
    if (reference.HasTolerance(GetParam())) continue;
    SCOPED_TRACE(name);
    const std::vector<double> distances = LogitDistances(reference, GetParam());
    const double median = distances[distances.size() / 2];
    EXPECT_LE(median, 2e-2);
    std::printf("%-20s %s: median relative L2 %.1e, worst %.1e\n", name.c_str(),
                std::string(Name(GetParam())).c_str(), median, distances.back());
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

// Weights of layers in fp8.
class CudaFp8ReferenceModelsTest : public CudaReferenceModelsTest {
 protected:
  static void ExpectLogitsWithin(double distance_max) {
    for (const std::string& name : testing::ReferenceNames()) {
      SCOPED_TRACE(name);
      const testing::ReferenceModel reference =
          Cut().Of(testing::ReadReference(testing::ReferenceModels() / name));
      if (!reference.HasTolerance(GetParam())) continue;  // mixtures
      const std::vector<exec::Generation> generations = testing::GenerateFor(
          reference, GetParam(), testing::SmallChunks(DType::kBf16, exec::KeptLogits::kAll),
          LoadOnCuda);
      double worst = 0;
      for (std::size_t i = 0; i < generations.size(); ++i) {
        worst = std::max(worst, testing::RelativeDistance(generations[i].last_logits,
                                                          reference.prompts[i].last_logits));
      }
      EXPECT_LE(worst, distance_max);
      std::printf("%-20s fp8: worst relative L2 %.1e\n", name.c_str(), worst);
    }
  }
};

// Each product is then off by 4 percent (root mean square: 2.6 percent for each of its factors,
// whose place in an octave is uniform), and the sums of the halves of all layers add up. A matrix
// that was padded, scaled or placed wrongly is off by all of it.
TEST_P(CudaFp8ReferenceModelsTest, GiveLogitsNearTheReference) { ExpectLogitsWithin(0.25); }

// Where weights are widened, only they are rounded: 2.6 percent instead of 3.7.
TEST_P(CudaFp8ReferenceModelsTest, GiveNearerLogitsWhereWeightsAreWidened) {
  cuda_emulation::ResetDevice({.compute_capability = 80});
  ExpectLogitsWithin(0.25 / 1.41);
}

INSTANTIATE_TEST_SUITE_P(Weights, CudaFp8ReferenceModelsTest, ::testing::Values(DType::kFp8),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

INSTANTIATE_TEST_SUITE_P(Precisions, CudaReferenceModelsTest, ::testing::Values(DType::kBf16),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

}  // namespace
}  // namespace twin
