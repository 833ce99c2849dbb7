// How many runs an interval wants, by metric, number and spread of the runs.
#include "run/many/runs_wanted.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace twin::run {
namespace {

using Columns = std::map<std::string, std::vector<double>>;

std::size_t Wanted(const std::string& metric, const Columns& columns) {
  return RunsWanted(metric, [&](const std::string& name) -> std::span<const double> {
    const auto found = columns.find(name);
    return found == columns.end() ? std::span<const double>() : found->second;
  });
}

// first, first + step, ...
std::vector<double> Spaced(std::size_t n, double first, double step) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(first + step * static_cast<double>(i));
  return values;
}

TEST(RunsWantedTest, TwoRunsDoForTimesBetweenTokensAndThroughput) {
  for (const char* metric : {"mean_tpot_ms", "p99_itl_ms", "output_throughput", "mean_e2el_ms"}) {
    EXPECT_EQ(Wanted(metric, {{metric, {1, 2}}}), 0u) << metric;
    EXPECT_EQ(Wanted(metric, {{metric, {1}}}), 2u) << metric;
  }
}

TEST(RunsWantedTest, TimesThatRequestsWaitWantTwenty) {
  for (const char* metric : {"mean_ttft_ms", "p99_queue_ms", "mean_waiting", "tenant_3_p99_ttft_ms",
                             "group_0_mean_ttft_ms"}) {
    EXPECT_EQ(Wanted(metric, {{metric, Spaced(19, 1, 1)}}), 20u) << metric;
    EXPECT_EQ(Wanted(metric, {{metric, Spaced(20, 1, 1)}}), 0u) << metric;
  }
}

TEST(RunsWantedTest, ValuesThatAreAllEqualAreSure) {
  EXPECT_EQ(Wanted("mean_ttft_ms", {{"mean_ttft_ms", {3, 3}}}), 0u);
}

TEST(RunsWantedTest, TenRunsDoWhereRequestsWaitForNoPlace) {
  Columns runs{{"mean_ttft_ms", Spaced(10, 30, 1)}, {"max_running", Spaced(10, 14, 1)}};
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 0u);
  runs["mean_ttft_ms"].pop_back();
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 10u);
}

TEST(RunsWantedTest, PlacesAreScarceWhereMostRunsReachTheSameNumberOfRunningRequests) {
  Columns runs{{"mean_ttft_ms", Spaced(10, 30, 1)},
               {"max_running", {32, 32, 32, 32, 32, 32, 31, 30, 29, 28}}};
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 20u);
  runs["max_running"] = {32, 32, 32, 32, 32, 31, 31, 30, 29, 28};
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 0u);
}

TEST(RunsWantedTest, PlacesAreScarceWhereMostRunsFillTheCache) {
  Columns runs{{"mean_ttft_ms", Spaced(10, 30, 1)},
               {"max_running", Spaced(10, 14, 1)},
               {"max_kv_used_share", {1, 1, 1, 1, 1, 0.96, 0.9, 0.9, 0.9, 0.9}}};
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 20u);
  runs["max_kv_used_share"][5] = 0.94;
  EXPECT_EQ(Wanted("mean_ttft_ms", runs), 0u);
}

TEST(RunsWantedTest, ALatencyThatIsMostlyWaitingCountsAsWaiting) {
  const Columns runs{{"mean_e2el_ms", {100, 110}}, {"mean_ttft_ms", {60, 70}}};
  EXPECT_EQ(Wanted("mean_e2el_ms", runs), 20u);
  EXPECT_EQ(Wanted("mean_e2el_ms", {{"mean_e2el_ms", {100, 110}}, {"mean_ttft_ms", {20, 30}}}), 0u);
}

TEST(RunsWantedTest, AQuantileBelowACliffWantsAHundred) {
  // Logarithms of the next quantile spread by 0.9, of the quantile itself by 0.02.
  Columns runs{{"p90_ttft_ms", Spaced(20, 60, 0.2)}, {"p99_ttft_ms", Spaced(20, 100, 100)}};
  EXPECT_EQ(Wanted("p90_ttft_ms", runs), 100u);
  runs["p99_ttft_ms"] = Spaced(20, 100, 1);
  EXPECT_EQ(Wanted("p90_ttft_ms", runs), 0u);
  EXPECT_EQ(Wanted("p99_ttft_ms", runs), 0u);  // nothing higher is known
}

TEST(RunsWantedTest, AShareThatFewRunsMissWantsTwenty) {
  EXPECT_EQ(Wanted("slo_attainment", {{"slo_attainment", {1, 1, 1, 0.9, 1}}}), 20u);
  EXPECT_EQ(Wanted("slo_attainment", {{"slo_attainment", {1, 1, 1, 1, 1}}}), 0u);
  EXPECT_EQ(Wanted("slo_attainment", {{"slo_attainment", {0.8, 0.7, 1, 0.9, 0.8}}}), 0u);
}

TEST(RunsWantedTest, ColumnsThatNoRunWritesWantTwo) {
  EXPECT_EQ(Wanted("ttft_per_device", {{"ttft_per_device", {1, 2}}}), 0u);
}

TEST(RunsWantedTest, RangesOfMetrics) {
  EXPECT_EQ(RangeOf("slo_attainment"), ValueRange::kProportion);
  EXPECT_EQ(RangeOf("tenant_1_slo_attainment"), ValueRange::kProportion);
  EXPECT_EQ(RangeOf("mean_ttft_ms"), ValueRange::kNonNegative);
  EXPECT_EQ(RangeOf("profit"), ValueRange::kAny);
}

}  // namespace
}  // namespace twin::run
