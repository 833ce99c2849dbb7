// What bounds on metrics judge.
#include "run/many/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace twin::run {
namespace {

MetricBound Bound(const char* text) { return ParseBounds(text).at(0); }

// A percentile of 99 % promises an answer to 99 % of the clients that it concerns.
TEST(BoundsTest, ALatencyIsJudgedByTheClientsThatItConcerns) {
  Summary summary;
  for (const char* whose : {"", "tenant_3_", "tenant_7_"}) {
    summary.Set(std::string(whose) + "p99_ttft_ms", 5.0);
  }
  summary.Set("unanswered_share", 0.02);
  summary.Set("tenant_3_unanswered_share", 0.03);
  summary.Set("tenant_7_unanswered_share", 0.0);
  EXPECT_TRUE(std::isnan(JudgedValue(summary, Bound("p99_ttft_ms<=9"))));
  EXPECT_TRUE(std::isnan(JudgedValue(summary, Bound("tenant_3_p99_ttft_ms<=9"))));
  EXPECT_EQ(JudgedValue(summary, Bound("tenant_7_p99_ttft_ms<=9")), 5);
  EXPECT_EQ(JudgedValue(summary, Bound("p99_ttft_ms>=2")), 5);
}

TEST(BoundsTest, OtherNamesOfAMetricAreTaken) {
  EXPECT_EQ(Bound("p99_tbt_ms<=80").metric, "p99_itl_ms");
}

}  // namespace
}  // namespace twin::run
