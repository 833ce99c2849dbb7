// Models whose layers have weights of 4 bits: on an emulated device, and on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/cuda/cuda_model.h"
#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec/int4_folder.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::ConfigOf;
using testing::DeviceModelTest;
using testing::Generated;
using ::testing::HasSubstr;
using testing::Int4Folder;
using testing::kSixteenBits;
using testing::Options;
using testing::OptionsOfAllLogits;
using testing::OutputsOf;
using testing::PromptLogits;
using twin::testing::RelativeDistance;
using Kind = Int4Layout::Kind;

class CudaInt4ModelTest : public DeviceModelTest {
 protected:
  std::vector<float> CpuLogits(DType format) {
    return PromptLogits(
        Generated(*LoadOnCpu(format), OptionsOfAllLogits(VllmV1Config{}, DType::kFp32)));
  }
};

// One prompt at a time, up to 20 rows: weights are widened in the product and before it.
TEST_F(CudaInt4ModelTest, RoundsOtherCheckpointsToTheWeightsOfTheCpu) {
  const std::vector<float> on_cpu = CpuLogits(DType::kInt4);
  const auto model = Load({.dtype = DType::kInt4});
  for (const std::int32_t budget : {64, 7, 1}) {
    const VllmV1Config policy{.max_num_batched_tokens = budget, .max_num_seqs = 1};
    const auto logits = PromptLogits(Generated(*model, OptionsOfAllLogits(policy)));
    EXPECT_LT(RelativeDistance(logits, on_cpu), kSixteenBits) << budget;
  }
  // The rounding of weights is seen: the test above would fail without it.
  EXPECT_GT(RelativeDistance(on_cpu, CpuLogits(DType::kFp32)), 2 * kSixteenBits);
}

TEST_F(CudaInt4ModelTest, GraphsAndBatchesGiveTheTokensOfLaunchedKernels) {
  if (!testing::DeviceIsExact()) GTEST_SKIP() << "of a device that rounds alike in every batch";
  const auto tokens = [&](bool graphs, const VllmV1Config& policy) {
    return OutputsOf(*Load({.dtype = DType::kInt4, .graphs = graphs}), Options(policy));
  };
  const auto plain = tokens(false, {.max_num_batched_tokens = 8, .max_num_seqs = 1});
  EXPECT_EQ(tokens(true, {.max_num_batched_tokens = 8}), plain);
  EXPECT_EQ(tokens(true, {.max_num_batched_tokens = 8, .async_scheduling = true}), plain);
}

TEST_F(CudaInt4ModelTest, DummyWeightsAreThoseOfTheCpu) {
  const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                .seed = 5,
                                                .format = DType::kInt4,
                                                .positions = 100,
                                                .largest_step = {.tokens = 64, .sequences = 4},
                                                .checks_finite = true},
                                               pool_);
  CpuModel on_cpu(config_, MakeDummyWeights(config_, DType::kInt4, 5, pool_), 100, pool_);
  EXPECT_LT(RelativeDistance(
                PromptLogits(Generated(*loaded.model, OptionsOfAllLogits(VllmV1Config{}))),
                PromptLogits(Generated(on_cpu, OptionsOfAllLogits(VllmV1Config{}, DType::kFp32)))),
            kSixteenBits);
}

TEST_F(CudaInt4ModelTest, OperationsAndTheMeasuredCacheWork) {
  const auto model = Load({.dtype = DType::kInt4});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  for (const std::int64_t tokens : {3, 40}) {
    EXPECT_GE(operations->RunGemms(tokens).sum(), 0);
  }
  EXPECT_GT(MeasureKvBytes(*model, 0.5), 0);
  const ModelWork wide = Load({})->WorkWith(DType::kBf16);
  const ModelWork work = model->WorkWith(DType::kBf16);
  EXPECT_EQ(work.layer_weights, wide.layer_weights);
  EXPECT_LT(work.layer_bytes, wide.layer_bytes);
}

struct StoredCase {
  const char* name;
  Kind kind;
  const char* quantization;
  bool shuffled = false;
};

class CudaStoredInt4Test : public DeviceModelTest,
                           public ::testing::WithParamInterface<StoredCase> {
 protected:
  LoadedCudaModel LoadStored(const Int4Folder& folder) {
    return LoadCudaModel({.config = config_,
                          .weights = folder.path(),
                          .format = DType::kInt4,
                          .positions = 64,
                          .largest_step = {.tokens = 64, .sequences = 4},
                          .tunes = false,
                          .checks_finite = true},
                         pool_);
  }
};

TEST_P(CudaStoredInt4Test, GivesTheLogitsOfTheCpu) {
  config_ = ParseModelConfig(ConfigOf(GetParam().quantization), "config.json");
  const Int4Folder folder(GetParam().kind, config_, GetParam().shuffled);
  folder.Write();
  const LoadedCudaModel loaded = LoadStored(folder);
  if (GetParam().shuffled) {
    EXPECT_THAT(loaded.warnings,
                ::testing::Contains(HasSubstr(": 8 matrices are widened to 16 bits")));
  }
  CpuModel on_cpu(config_, LoadWeights(folder.path(), config_, DType::kInt4, pool_).weights, 64,
                  pool_);
  EXPECT_LT(RelativeDistance(
                PromptLogits(Generated(*loaded.model, OptionsOfAllLogits(VllmV1Config{}))),
                PromptLogits(Generated(on_cpu, OptionsOfAllLogits(VllmV1Config{}, DType::kFp32)))),
            kSixteenBits);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaStoredInt4Test,
                         ::testing::Values(StoredCase{"Gptq", Kind::kGptq, testing::kGptq},
                                           StoredCase{"GptqInActivationOrder", Kind::kGptq,
                                                      testing::kGptq, true},
                                           StoredCase{"Awq", Kind::kAwq, testing::kAwq}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace twin::exec::cuda
