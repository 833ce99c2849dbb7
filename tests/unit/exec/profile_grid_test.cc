#include "exec/profile/profile_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "exec/cpu/cpu_model.h"
#include "exec/profile/synthetic_steps.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::ElementsAre;

constexpr ProfileLimits kLimits{
    .tokens_max = 100, .context_max = 128, .cache_tokens = 900, .batch_max = 16, .mixes = 80};

TEST(ProfileGridTest, SizesGrowByHalvesUpToTheLargest) {
  EXPECT_THAT(GridSizes(20, false), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 20));
  EXPECT_THAT(GridSizes(20, true), ElementsAre(1, 2, 4, 8, 16, 20));
  EXPECT_THAT(GridSizes(16, false), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16));
  EXPECT_THAT(GridSizes(1, false), ElementsAre(1));
}

void ExpectWithin(const ProfiledStep& step, const ProfileLimits& limits) {
  const StepTotals totals = TotalsOf(step.items);
  EXPECT_GE(totals.tokens(), 1) << step.name;
  EXPECT_LE(totals.tokens(), limits.tokens_max) << step.name;
  EXPECT_LE(totals.decode_items, limits.batch_max) << step.name;
  EXPECT_LE(totals.prefill_context_tokens + totals.decode_context_tokens, limits.cache_tokens)
      << step.name;
  for (const StepItem& item : step.items) {
    EXPECT_GE(item.start, 0);
    EXPECT_GE(item.tokens, 1);
    EXPECT_LE(item.start + item.tokens, limits.context_max) << step.name;
  }
}

TEST(ProfileGridTest, NoStepExceedsTheLimits) {
  std::set<std::string> names;
  for (const bool coarse : {false, true}) {
    ProfileLimits limits = kLimits;
    limits.coarse = coarse;
    names.clear();
    for (auto* const grid : {&PrefillGrid, &DecodeGrid, &MixedSteps}) {
      for (const ProfiledStep& step : grid(limits)) {
        ExpectWithin(step, limits);
        EXPECT_TRUE(names.insert(step.name).second) << step.name;
      }
    }
  }
}

TEST(ProfileGridTest, MixesAreOfAllKindsAndAlwaysTheSame) {
  const std::vector<ProfiledStep> steps = MixedSteps(kLimits);
  ASSERT_EQ(steps.size(), 80U);
  int mixed = 0;
  int decodes = 0;
  int chunks = 0;
  for (const ProfiledStep& step : steps) {
    const StepTotals totals = TotalsOf(step.items);
    mixed += totals.prefill_items > 0 && totals.decode_items > 0 ? 1 : 0;
    decodes += totals.prefill_items == 0 ? 1 : 0;
    chunks += totals.decode_items == 0 ? 1 : 0;
  }
  EXPECT_GE(mixed, 20);
  EXPECT_GE(decodes, 10);
  EXPECT_GE(chunks, 5);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(MixedSteps(kLimits)[i].items, steps[i].items);
  }
}

TEST(OperationsTest, EveryOperationTakesTime) {
  for (const char* const text : {testing::kLlamaConfig, testing::kGpt2Config}) {
    const ModelConfig config = ParseModelConfig(text, "config.json");
    kernels::ThreadPool pool(2);
    CpuModel model(config, MakeDummyWeights(config, DType::kBf16, 1, pool), 64, pool);
    SyntheticSteps steps(model, {.block_size = 4, .tokens = 200, .items = 4});
    const std::unique_ptr<Operations> operations = model.MakeOperations(steps.cache());
    for (const std::int64_t tokens : {1, 40}) {
      EXPECT_GT(operations->RunGemms(tokens).qkv, 0);
      EXPECT_GT(operations->RunGemms(tokens).down, 0);
      EXPECT_GT(operations->RunOther(tokens).norms, 0);
      EXPECT_GT(operations->RunOther(tokens).append, 0);
      EXPECT_GT(operations->RunHead(tokens), 0);
    }
    EXPECT_GT(operations->RunAttention(std::vector{ChunkItem(10, 30, true), DecodeItem(50)}), 0);
    EXPECT_GT(operations->RunBlockCopies(3), 0);
  }
}

TEST(OperationsTest, ThoseOfAMixtureTakeTime) {
  const ModelConfig config = ParseModelConfig(testing::kMixtureConfig, "config.json");
  kernels::ThreadPool pool(2);
  CpuModel model(config, MakeDummyWeights(config, DType::kBf16, 1, pool), 64, pool);
  SyntheticSteps steps(model, {.block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model.MakeOperations(steps.cache());
  for (const std::int64_t tokens : {1, 40}) {
    const GemmSeconds gemms = operations->RunGemms(tokens);
    for (const double seconds :
         {gemms.qkv, gemms.router, gemms.expert_up, gemms.expert_down, gemms.up, gemms.down}) {
      EXPECT_GT(seconds, 0);
    }
    EXPECT_GT(operations->RunOther(tokens).activation, 0);
    EXPECT_GT(operations->RunOther(tokens).routing, 0);
  }
}

TEST(OperationsTest, DenseModelsHaveNoneOfAMixture) {
  const ModelConfig config = ParseModelConfig(testing::kLlamaConfig, "config.json");
  kernels::ThreadPool pool(1);
  CpuModel model(config, MakeDummyWeights(config, DType::kFp32, 1, pool), 64, pool);
  SyntheticSteps steps(model, {.block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model.MakeOperations(steps.cache());
  EXPECT_EQ(operations->RunGemms(4).router + operations->RunGemms(4).expert_up, 0);
  EXPECT_EQ(operations->RunOther(4).routing, 0);
}

}  // namespace
}  // namespace twin::exec
