// Which runs have an interval of a mean on their page, on numbers worked out by hand.
#include "apps/report/mean_interval.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twin::run {
namespace {

// 1,000 requests, one each `gap_s`, all of the same time in the system; TTFTs 10 and 20 ms in turn.
ReportedRun RunOf(double gap_s, double time_s, const std::string& config = "") {
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < 1000; ++i) {
    rows.push_back({fmt::format("{}", gap_s * i), fmt::format("{}", i % 2 == 0 ? 10 : 20),
                    fmt::format("{}", 1e3 * time_s)});
  }
  ReportedRun run;
  run.config = config;
  run.requests.emplace("requests.csv", std::vector<std::string>{"arrival_s", "ttft_ms", "e2el_ms"},
                       rows);
  return run;
}

std::string TextOf(const ReportedRun& run) { return MeanIntervals(run).TextOf("mean_ttft_ms"); }

std::string Config(const std::string& arrivals, int sequences) {
  return fmt::format(
      R"(name: "x" system {{ model: "llama-3.2-1b" hardware: "l4" }} cost {{ roofline {{}} }}
         policy {{ vllm_v1 {{ max_num_seqs: {} }} }}
         workload {{ requests: 1000 arrivals {{ {} }} preset: conversation }})",
      sequences, arrivals);
}

// 999 s with 1,000 or 10,000 s of requests: 1.001 or 10.01 in the system, times 500.
TEST(MeanIntervalTest, ARunNeeds500TimesTheRequestsInItsSystem) {
  EXPECT_EQ(TextOf(RunOf(1, 1)), " [15, 15]");
  EXPECT_EQ(TextOf(RunOf(1, 10)), " (no interval: 5100 requests would do)");
  EXPECT_EQ(MeanIntervals(RunOf(1, 1)).TextOf("p99_ttft_ms"), "");
  EXPECT_EQ(MeanIntervals(RunOf(1, 1)).TextOf("mean_tpot_ms"), "");
}

TEST(MeanIntervalTest, ARunWithoutSteadyStateHasNone) {
  EXPECT_EQ(TextOf(RunOf(0, 1)), " (no interval: all requests came at once)");
  ReportedRun saturated = RunOf(1, 1);
  saturated.summary.Set("saturated", "yes");
  EXPECT_EQ(TextOf(saturated), " (no interval: saturated)");
}

TEST(MeanIntervalTest, UsersWhoWaitNeedFewerRequests) {
  EXPECT_EQ(TextOf(RunOf(1, 10, Config("kind: closed_loop users: 10", 20))), " [15, 15]");
}

// 10 of 32 sequences run, then of 20.
TEST(MeanIntervalTest, ASystemWithRoomNeedsFewerRequests) {
  const std::string kNone = " (no interval: 5100 requests would do)";
  const auto text = [](int sequences, double waiting, double cache) {
    ReportedRun run = RunOf(1, 10, Config("kind: poisson rate: 1", sequences));
    run.summary.Set("mean_running", 10.0);
    run.summary.Set("mean_waiting", waiting);
    run.summary.Set("mean_kv_used_share", cache);
    return TextOf(run);
  };
  EXPECT_EQ(text(32, 0.5, 0.1), " [15, 15]");
  EXPECT_EQ(text(20, 0.5, 0.1), kNone);
  EXPECT_EQ(text(32, 2, 0.1), kNone);
  EXPECT_EQ(text(32, 0.5, 0.4), kNone);
}

}  // namespace
}  // namespace twin::run
