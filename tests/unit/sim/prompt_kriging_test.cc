#include "sim/devices/operations/prompt_kriging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/devices/operations/attention_table.h"

namespace twin::sim {
namespace {

// One tile per 128 rows of the query heads of a KV head.
ContextKernel Kernel(double multiprocessors) {
  ContextKernel kernel;
  kernel.multiprocessors = multiprocessors;
  return kernel;
}

PromptCall Call(std::int32_t query_heads, std::int32_t kv_heads, double requests, double tokens) {
  return {.query_heads = query_heads, .kv_heads = kv_heads, .requests = requests, .tokens = tokens};
}

// The weight of a single point is 1. At its own place the variance is the nugget, 0.01, half of the
// usual one; far away it is twice that of a point, and the nugget.
TEST(PromptKrigingTest, OneMeasurementSpeaksForAllCallsLessSurelyForFarOnes) {
  PromptKriging kriging(Kernel(1000));
  EXPECT_TRUE(kriging.empty());
  kriging.Add(Call(8, 2, 4, 512), 0.25);
  const LogRatio own = kriging(Call(8, 2, 4, 512));
  EXPECT_NEAR(own.mean, 0.25, 1e-12);
  EXPECT_NEAR(own.sd, std::sqrt(0.01 / 0.02), 1e-9);
  const LogRatio far = kriging(Call(8, 2, 4096, 1 << 24));
  EXPECT_NEAR(far.mean, 0.25, 1e-12);
  EXPECT_NEAR(far.sd, std::sqrt(2.01 / 0.02), 0.05);
}

// 512 tokens lie in the middle of 256 and 1,024 in every logarithm: 4 tiles between 2 and 8, and
// never more than one wave.
TEST(PromptKrigingTest, ACallInTheMiddleOfTwoTakesTheirMean) {
  PromptKriging kriging(Kernel(1000));
  kriging.Add(Call(1, 1, 1, 256), 0.1);
  kriging.Add(Call(1, 1, 1, 1024), 0.5);
  EXPECT_NEAR(kriging(Call(1, 1, 1, 512)).mean, 0.3, 1e-9);
}

// 101 tiles on 100 multiprocessors leave the second wave almost empty, as 104 do; 100 leave none.
// The weights are 1.002 and -0.002. Where one wave holds all they are 0.486 and 0.514.
TEST(PromptKrigingTest, CallsAreNearWhoseLastWavesAreAsEmpty) {
  PromptKriging kriging(Kernel(100));
  kriging.Add(Call(1, 1, 100, 128), -0.2);
  kriging.Add(Call(1, 1, 104, 128), 0.3);
  EXPECT_NEAR(kriging(Call(1, 1, 101, 128)).mean, 0.3, 0.01);
  PromptKriging wide(Kernel(1000));  // one wave holds all
  wide.Add(Call(1, 1, 100, 128), -0.2);
  wide.Add(Call(1, 1, 104, 128), 0.3);
  EXPECT_NEAR(wide(Call(1, 1, 101, 128)).mean, 0.486 * 0.3 - 0.514 * 0.2, 0.002);
}

// A tile of 128 rows holds 16 whole tokens of 8 query heads, but parts of tokens of 12 and 20. In
// octaves 12 is nearer to 8.
TEST(PromptKrigingTest, GroupsThatDivideATileAreNearEachOther) {
  PromptKriging kriging(Kernel(1000));
  kriging.Add(Call(8, 1, 1, 1024), -0.4);
  kriging.Add(Call(20, 1, 1, 1024), 0.4);
  EXPECT_GT(kriging(Call(12, 1, 1, 1024)).mean, 0);
  PromptKriging dividing(Kernel(1000));  // 16 lies 1 octave from 8 and 1 from 32
  dividing.Add(Call(8, 1, 1, 1024), -0.4);
  dividing.Add(Call(32, 1, 1, 1024), 0.4);
  EXPECT_NEAR(dividing(Call(16, 1, 1, 1024)).mean, 0, 1e-9);
}

// Prompts of 1/1 heads: 0.1 at 256 tokens and 0.5 at 1,024; nobody measured 512. Prompts of two
// requests were not measured at all.
TEST(PromptKrigingTest, ATableKrigesTheCallsThatItDoesNotHold) {
  const AttentionGrid grid{.batches = {1, 2}, .lengths = {256, 512, 1024}};
  const double missing = std::nan("");
  const std::vector<AttentionRow> rows = {
      {.query_heads = 1,
       .kv_heads = 1,
       .log_ratios = {0.1, missing, 0.5, missing, missing, missing}}};
  AttentionTable table;
  table.kind = AttentionKind::kContext;
  table.head_dim = 128;
  table.context = Kernel(1000);
  table.spread = 0.04;
  ASSERT_TRUE(Kriges(table));
  AttentionCorrection correction(table, grid, rows, 1, 1);
  correction.KrigePrompts();
  EXPECT_NEAR(correction(1, 256).mean, 0.1, 1e-12);
  EXPECT_NEAR(correction(1, 256).sd, 0.04, 1e-12);
  EXPECT_NEAR(correction(1, 512).mean, 0.3, 1e-9);
  PromptKriging kriging(table.context);
  kriging.Add(Call(1, 1, 1, 256), 0.1);
  kriging.Add(Call(1, 1, 1, 1024), 0.5);
  const LogRatio other = kriging(Call(4, 2, 2, 512));
  AttentionCorrection of_others(table, grid, rows, 4, 2);
  of_others.KrigePrompts();
  EXPECT_NEAR(of_others(2, 512).mean, other.mean, 1e-9);
  EXPECT_NEAR(of_others(2, 512).sd, 0.04 * other.sd, 1e-9);
}

}  // namespace
}  // namespace twin::sim
