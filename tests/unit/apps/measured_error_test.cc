// Errors against a measured run: the chance of throughput, and verdicts of ranges.
#include "apps/validate/measured_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace twin::apps {
namespace {

// Requests of one token, sent when the one before has it, which takes `first_ms` in the first half
// and `second_ms` in the second.
std::vector<BenchmarkRequest> OneByOne(int requests, int first_ms, int second_ms) {
  std::vector<BenchmarkRequest> all;
  TimePoint now = kTimeZero;
  for (int i = 0; i < requests; ++i) {
    const Duration time = std::chrono::milliseconds(i < requests / 2 ? first_ms : second_ms);
    all.push_back({.sent = now,
                   .prompt_tokens = 1,
                   .output_tokens = 1,
                   .completed = true,
                   .ttft = time,
                   .e2e = time});
    now += time;
  }
  return all;
}

TEST(ThroughputVarianceTest, EvenRunsHaveHardlyAny) {
  // 200 ends at equal distances: each hundredth of the time has two, but for the one at its end.
  const auto variance = ThroughputVariance(OneByOne(200, 10, 10), {});
  ASSERT_TRUE(variance);
  EXPECT_LT(std::sqrt(*variance), 0.005);
}

// 100 requests in 1 s, then 100 in 3 s: 25 hundredths of the time have 4 ends each, 75 have 4/3.
// Blocks of 5 hundredths are drawn 20 times. The variance of the sum is about 20 times that of a
// block: with a share of 1/4 for 20 ends and of 3/4 for 6.7, 20 * 33.3; its mean is 200.
TEST(ThroughputVarianceTest, BlocksOfTimeVaryAsTheRateDoes) {
  const auto variance = ThroughputVariance(OneByOne(200, 10, 30), {});
  ASSERT_TRUE(variance);
  const double expected = std::sqrt(20 * 33.3) / 200;
  EXPECT_NEAR(std::sqrt(*variance), expected, 0.2 * expected);
}

TEST(ThroughputVarianceTest, WhatBothRunsShareIsNoChance) {
  const auto slow = OneByOne(200, 10, 30);
  const auto twice = OneByOne(200, 20, 60);
  ASSERT_TRUE(ThroughputVariance(slow, twice));
  EXPECT_NEAR(*ThroughputVariance(slow, twice), 0, 1e-12);
}

TEST(ThroughputVarianceTest, NeedsTheEndsOfAllRequests) {
  auto requests = OneByOne(10, 10, 10);
  requests[3].e2e.reset();
  EXPECT_FALSE(ThroughputVariance(requests, {}));
  EXPECT_FALSE(ThroughputVariance({}, {}));
}

TEST(MetricErrorTest, ARangeIsComparedAtItsEnds) {
  MetricError error{.metric = "p90_ttft_ms",
                    .measured = 150,
                    .simulated = 120,
                    .requests = 100,
                    .log_sd = 0,
                    .range = QuantileRange{.above = 100, .up_to = 200, .middle = 150}};
  EXPECT_NEAR(error.percent(), -20, 1e-9);
  EXPECT_NEAR(error.low_percent(), -40, 1e-9);
  EXPECT_NEAR(error.high_percent(), 20, 1e-9);
  EXPECT_EQ(error.text(), "cannot tell (measured in 100 to 200)");
  error.range = QuantileRange{.above = 110, .up_to = 130, .middle = 120};
  EXPECT_EQ(error.text(), "agrees within 9.1 % (measured in 110 to 130)");  // 120 / 110
  error.simulated = 90;
  EXPECT_EQ(error.verdict(), ErrorVerdict::kOff);
  error.requests = 35;
  EXPECT_EQ(error.text(), "too few requests (35 of 36)");
}

}  // namespace
}  // namespace twin::apps
