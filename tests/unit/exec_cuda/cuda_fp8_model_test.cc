// A model whose layers have weights of fp8: on an emulated device, and on a GPU that has such
// products.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "exec/cuda/cuda_model.h"
#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using testing::Generated;
using testing::PromptLogits;

class CudaFp8ModelTest : public DeviceModelTest {
 protected:
  void SetUp() override {
    DeviceModelTest::SetUp();
    const auto model = Load({});
    if (dynamic_cast<CudaModel&>(*model).device().compute_capability() != 90) {
      GTEST_SKIP() << "needs a device of compute capability 9.0";
    }
  }
};

GenerationOptions Options(const PolicyConfig& policy) {
  return {.policy = policy, .keep = KeptLogits::kLast, .kv_dtype = DType::kBf16, .block_size = 4};
}

TEST_F(CudaFp8ModelTest, LogitsAreWithinSomePercentOfThoseOfBf16) {
  GenerationOptions options = Options(VllmV1Config{});
  options.keep = KeptLogits::kAll;
  const std::vector<Generation> wide = Generated(*Load({}), options);
  const std::vector<Generation> narrow = Generated(*Load({.dtype = DType::kFp8}), options);
  // Of the prompts: behind them the tokens may differ.
  const double distance = twin::testing::RelativeDistance(PromptLogits(narrow), PromptLogits(wide));
  std::printf("relative distance of fp8 from bf16: %.3f\n", distance);
  // Each product is off by 4 percent (cuda_scaled_gemm_test).
  EXPECT_GT(distance, 0.01);
  EXPECT_LT(distance, 0.10);
}

TEST_F(CudaFp8ModelTest, DummyWeightsAreThoseOfBf16Quantized) {
  const auto logits = [&](DType format) {
    LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                            .seed = 5,
                                            .format = format,
                                            .positions = 100,
                                            .largest_step = {.tokens = 64, .sequences = 4},
                                            .tunes = true,
                                            .checks_finite = true},
                                           pool_);
    return Generated(*loaded.model, Options(VllmV1Config{}))[0].last_logits;
  };
  const std::vector<float> wide = logits(DType::kBf16);
  const std::vector<float> narrow = logits(DType::kFp8);
  ASSERT_EQ(wide.size(), narrow.size());
  double product = 0;
  double of_wide = 0;
  double of_narrow = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    product += double{wide[i]} * double{narrow[i]};
    of_wide += double{wide[i]} * double{wide[i]};
    of_narrow += double{narrow[i]} * double{narrow[i]};
  }
  EXPECT_NE(wide, narrow);
  EXPECT_GT(product / std::sqrt(of_wide * of_narrow), 0.98);
}

TEST_F(CudaFp8ModelTest, OperationsAndTheMeasuredCacheWork) {
  const auto model = Load({.dtype = DType::kFp8});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  EXPECT_GE(operations->RunGemms(3).sum(), 0);
  EXPECT_GE(operations->RunOther(5).sum(), 0);
  EXPECT_GT(MeasureKvBytes(*model, 0.5), 0);
}

}  // namespace
}  // namespace twin::exec::cuda
