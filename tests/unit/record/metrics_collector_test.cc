#include "run/record/metrics_collector.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <variant>

#include "run/record/request_tracker.h"
#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::At;
using testing::Decode;
using testing::Last;
using testing::Prefill;
using testing::R;
using testing::ScriptedRun;

constexpr std::int32_t kBlocks = 10;

class MetricsCollectorTest : public ::testing::Test {
 protected:
  // Builds tracker, collector and script anew.
  struct Run {
    explicit Run(MetricsConfig metrics, TrackerConfig tracking = {})
        : collector(metrics),
          listeners{&collector},
          tracker((tracking.kv_blocks = metrics.kv_blocks, tracking), listeners),
          script({&tracker}) {}

    double Number(const std::string& name) {
      script.Close();
      return collector.Summarise().Number(name);
    }

    MetricsCollector collector;
    std::array<RunListener*, 1> listeners;
    RequestTracker tracker;
    ScriptedRun script;
  };

  static MetricsConfig Config() {
    MetricsConfig config;
    config.kv_blocks = kBlocks;
    return config;
  }
};

// An example whose metrics were computed by hand from docs/metrics.md, times in ms:
//   A: arrival 0, tokens at 100,150,200,260. B: arrival 20, tokens at 220,260.
//   C: arrival 30, tokens at 400,440,500.
void TellGoldenExample(ScriptedRun& script) {
  const RequestId a = R(0);
  const RequestId b = R(1);
  const RequestId c = R(2);
  script.Arrive(At(0), a, 6);
  StepId step = script.Launch(At(0), {Prefill(a, 0, 6)});
  script.Arrive(At(20), b, 10);
  script.Arrive(At(30), c, 3);
  script.Finish(At(100), step);
  step = script.Launch(At(100), {Decode(a, 6)});
  script.Finish(At(150), step);
  step = script.Launch(At(150), {Decode(a, 7)});
  script.Finish(At(200), step);
  step = script.Launch(At(200), {Prefill(b, 0, 10)});
  script.Finish(At(220), step);
  step = script.Launch(At(220), {Decode(a, 8), Decode(b, 10)});
  script.Finish(At(260), step, {Last(a), Last(b)});
  step = script.Launch(At(260), {Prefill(c, 0, 3)});
  script.Finish(At(400), step);
  step = script.Launch(At(400), {Decode(c, 3)});
  script.Finish(At(440), step);
  step = script.Launch(At(440), {Decode(c, 4)});
  script.Finish(At(500), step, {Last(c)});
}

TEST_F(MetricsCollectorTest, GivesTheNumbersOfTheGoldenExample) {
  MetricsConfig config = Config();
  config.goal.ttft = Duration{200'000'000};
  config.goal.tpot = Duration{50'000'000};
  config.stall_threshold = Duration{50'000'000};
  Run run(config);
  TellGoldenExample(run.script);

  // 14.4, to the nanosecond to which a TPOT is rounded.
  constexpr double kNs = 1e-6;
  EXPECT_NEAR(run.Number("mean_ttft_ms"), (100 + 200 + 370) / 3.0, kNs);
  EXPECT_NEAR(run.Number("median_ttft_ms"), 200, kNs);
  EXPECT_NEAR(run.Number("p90_ttft_ms"), 336, kNs);
  EXPECT_NEAR(run.Number("p99_ttft_ms"), 366.6, kNs);
  EXPECT_NEAR(run.Number("mean_tpot_ms"), (160 / 3.0 + 40 + 50) / 3, kNs);
  EXPECT_NEAR(run.Number("p50_tpot_ms"), 50, kNs);
  EXPECT_NEAR(run.Number("p90_tpot_ms"), 50 + 0.8 * (160 / 3.0 - 50), kNs);
  EXPECT_NEAR(run.Number("p99_tpot_ms"), 50 + 0.98 * (160 / 3.0 - 50), kNs);
  EXPECT_NEAR(run.Number("mean_itl_ms"), 50, kNs);
  EXPECT_NEAR(run.Number("p50_itl_ms"), 50, kNs);
  EXPECT_NEAR(run.Number("p90_itl_ms"), 60, kNs);
  EXPECT_NEAR(run.Number("p99_itl_ms"), 60, kNs);
  EXPECT_NEAR(run.Number("max_itl_ms"), 60, kNs);
  EXPECT_NEAR(run.Number("min_itl_ms"), 40, kNs);
  // Pool 50,50,60,40,40,60: variance (0 + 0 + 100 + 100 + 100 + 100) / 6.
  EXPECT_NEAR(run.Number("std_itl_ms"), std::sqrt(400 / 6.0), kNs);
  EXPECT_NEAR(run.Number("mean_e2el_ms"), (260 + 240 + 470) / 3.0, kNs);
  EXPECT_NEAR(run.Number("max_e2el_ms"), 470, kNs);
  EXPECT_NEAR(run.Number("mean_normalized_ms_per_token"), (65 + 120 + 470 / 3.0) / 3, kNs);
  // Scheduled at 0, 200, 260.
  EXPECT_NEAR(run.Number("mean_queue_ms"), (0 + 180 + 230) / 3.0, kNs);
  EXPECT_NEAR(run.Number("mean_longest_itl_ms"), (60 + 40 + 60) / 3.0, kNs);
  EXPECT_EQ(run.Number("stalls"), 2);

  EXPECT_DOUBLE_EQ(run.Number("slo_attainment"), 1 / 3.0);
  EXPECT_DOUBLE_EQ(run.Number("request_goodput"), 2);
  EXPECT_DOUBLE_EQ(run.Number("request_throughput"), 6);
  EXPECT_DOUBLE_EQ(run.Number("output_throughput"), 18);
  EXPECT_DOUBLE_EQ(run.Number("total_token_throughput"), (9 + 19) / 0.5);
  EXPECT_EQ(run.Number("requests"), 3);
  EXPECT_EQ(run.Number("completed"), 3);
  EXPECT_EQ(run.Number("unfinished"), 0);
  EXPECT_EQ(run.Number("total_input_tokens"), 19);
  EXPECT_EQ(run.Number("total_output_tokens"), 9);
  EXPECT_EQ(run.Number("steps"), 8);
  EXPECT_DOUBLE_EQ(run.Number("simulated_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(run.Number("busy_share"), 1);
  EXPECT_DOUBLE_EQ(run.Number("mean_batch_tokens"), (19 + 6) / 8.0);
}

TEST_F(MetricsCollectorTest, ExcludesRequestsOutsideTheMeasuredWindowAndTheirGaps) {
  TrackerConfig tracking;
  tracking.window.first_request = 1;
  tracking.window.last_request = 1;
  Run run(Config(), tracking);
  TellGoldenExample(run.script);
  EXPECT_EQ(run.Number("requests"), 1);
  EXPECT_DOUBLE_EQ(run.Number("mean_ttft_ms"), 200);
  EXPECT_DOUBLE_EQ(run.Number("mean_itl_ms"), 40);
  EXPECT_DOUBLE_EQ(run.Number("max_itl_ms"), 40);
  EXPECT_DOUBLE_EQ(run.Number("duration_seconds"), 0.24);
  EXPECT_EQ(run.Number("steps"), 8);
}

// Request 1 alone is measured: from its arrival at 20 ms until it has its answer at 260 ms, the
// server also completed request 0, with 4 tokens.
TEST_F(MetricsCollectorTest, RatesCountWhateverCompletesInTheTimeOfTheMeasuredRequests) {
  TrackerConfig tracking;
  tracking.window.first_request = 1;
  tracking.window.last_request = 1;
  Run run(Config(), tracking);
  TellGoldenExample(run.script);
  EXPECT_EQ(run.Number("completed"), 1);
  EXPECT_DOUBLE_EQ(run.Number("request_throughput"), 2 / 0.24);
  EXPECT_DOUBLE_EQ(run.Number("output_throughput"), (4 + 2) / 0.24);
  EXPECT_DOUBLE_EQ(run.Number("total_token_throughput"), (6 + 4 + 10 + 2) / 0.24);
}

// One request is answered after 50 ms; the other one's client gives up after 200 ms.
TEST_F(MetricsCollectorTest, RequestsWithoutAnAnswerTakeTimeToo) {
  Run run(Config());
  run.script.Arrive(At(0), R(0), 4);
  run.script.Arrive(At(0), R(1), 4);
  run.script.Finish(At(50), run.script.Launch(At(0), {Prefill(R(0), 0, 4)}), {Last(R(0))});
  run.script.Cancel(At(200), R(1));
  EXPECT_DOUBLE_EQ(run.Number("duration_seconds"), 0.2);
  EXPECT_DOUBLE_EQ(run.Number("request_throughput"), 5);
  EXPECT_DOUBLE_EQ(run.Number("unanswered_share"), 0.5);
}

// 150 requests: two arrive together at first and wait for 50 ms, which is longer than the 10 ms of
// all others. The p99 of 150 values lies at rank 147.51, so that the two are all of the tail.
TEST_F(MetricsCollectorTest, TellsHowMuchOfTheTailIsTheBurstAtTheStart) {
  Run run(Config());
  run.script.Arrive(At(0), R(0), 4);
  run.script.Arrive(At(0), R(1), 4);
  const StepId first = run.script.Launch(At(0), {Prefill(R(0), 0, 4), Prefill(R(1), 0, 4)});
  run.script.Finish(At(50), first, {Last(R(0)), Last(R(1))});
  for (std::uint32_t i = 2; i < 150; ++i) {
    const double now = 50.0 + 10 * i;
    run.script.Arrive(At(now), R(i), 4);
    run.script.Finish(At(now + 10), run.script.Launch(At(now), {Prefill(R(i), 0, 4)}),
                      {Last(R(i))});
  }
  EXPECT_DOUBLE_EQ(run.Number("burst_share_of_ttft_tail"), 1);
}

// Nothing is answered in the 100 ms of the run, and one request still waits at its end: 0 requests
// per second, which is not undefined.
TEST_F(MetricsCollectorTest, ARunWithoutAnAnswerHasARateOfZero) {
  MetricsConfig config = Config();
  config.goal.ttft = Duration{1};
  Run run(config);
  run.script.Arrive(At(0), R(0), 4);
  run.script.Arrive(At(0), R(1), 4);
  run.script.Cancel(At(40), R(1));
  run.script.Arrive(At(100), R(2), 4);
  EXPECT_EQ(run.Number("request_throughput"), 0);
  EXPECT_EQ(run.Number("request_goodput"), 0);
  EXPECT_EQ(run.Number("unanswered_share"), 1);
  EXPECT_EQ(run.Number("unfinished"), 2);
  EXPECT_DOUBLE_EQ(run.Number("duration_seconds"), 0.1);
}

// Clients of static batching get an answer in one piece: they cannot measure a time between tokens.
TEST_F(MetricsCollectorTest, TimesBetweenTokensAreUndefinedWithoutStreaming) {
  MetricsConfig config = Config();
  config.streamed = false;
  config.goal.tpot = Duration{50'000'000};
  TrackerConfig tracking;
  tracking.delivery = Delivery::kBatchEnd;
  Run run(config, tracking);
  run.script.Arrive(At(0), R(0), 4);
  StepPlan plan;
  plan.work = {Prefill(R(0), 0, 4)};
  plan.admitted = {R(0)};
  run.script.Finish(At(10), run.script.Launch(At(0), plan));
  run.script.Finish(At(20), run.script.Launch(At(10), {Decode(R(0), 4)}), {Last(R(0))});
  EXPECT_DOUBLE_EQ(run.Number("mean_ttft_ms"), 20);
  for (const char* metric : {"mean_tpot_ms", "p99_itl_ms", "max_longest_itl_ms", "stalls",
                             "request_goodput", "slo_attainment"}) {
    EXPECT_TRUE(std::isnan(run.Number(metric))) << metric;
  }
}

TEST_F(MetricsCollectorTest, ExcludesArrivalsOutsideTheMeasuredTimes) {
  TrackerConfig tracking;
  tracking.window.first_arrival = At(20);
  tracking.window.last_arrival = At(20);
  Run run(Config(), tracking);
  TellGoldenExample(run.script);
  EXPECT_EQ(run.Number("completed"), 1);
  EXPECT_DOUBLE_EQ(run.Number("mean_e2el_ms"), 240);
}

TEST(MeasuredWindowTest, TrimsSharesRoundedDown) {
  const MeasuredWindow window = MeasuredWindow::Trimmed(105, 0.1, 0.05);
  EXPECT_EQ(window.first_request, 10u);      // floor(10.5)
  EXPECT_EQ(window.last_request, 104u - 5);  // floor(5.25)
  const MeasuredWindow all = MeasuredWindow::Trimmed(1, 0, 0);
  EXPECT_EQ(all.first_request, 0u);
  EXPECT_EQ(all.last_request, 0u);
}

TEST_F(MetricsCollectorTest, LeavesTheTpotOfAOneTokenRequestUndefinedAndItsGoalKept) {
  MetricsConfig config = Config();
  config.goal.tpot = Duration{1};
  Run run(config);
  run.script.Arrive(At(0), R(0), 4);
  const StepId step = run.script.Launch(At(0), {Prefill(R(0), 0, 4)});
  run.script.Finish(At(10), step, {Last(R(0))});
  EXPECT_TRUE(std::isnan(run.Number("mean_tpot_ms")));
  EXPECT_TRUE(std::isnan(run.Number("p99_itl_ms")));
  EXPECT_DOUBLE_EQ(run.Number("slo_attainment"), 1);
  EXPECT_DOUBLE_EQ(run.Number("mean_normalized_ms_per_token"), 10);
}

TEST_F(MetricsCollectorTest, JudgesEachBoundInclusively) {
  // One request: TTFT 100, three tokens, TPOT 50 exactly, end to end 200.
  struct Case {
    ServiceGoal goal;
    bool kept;
  };
  const auto ns = [](double ms) { return DurationFromSeconds(ms * 1e-3); };
  const Duration tick{1};
  for (const Case& c : {Case{{ns(100), ns(50), ns(200)}, true},
                        Case{{ns(100) - tick, {}, {}}, false}, Case{{{}, ns(50) - tick, {}}, false},
                        Case{{{}, {}, ns(200) - tick}, false}, Case{{ns(100), {}, {}}, true}}) {
    MetricsConfig config = Config();
    config.goal = c.goal;
    Run run(config);
    run.script.Arrive(At(0), R(0), 4);
    run.script.Finish(At(100), run.script.Launch(At(0), {Prefill(R(0), 0, 4)}));
    run.script.Finish(At(160), run.script.Launch(At(100), {Decode(R(0), 4)}));
    run.script.Finish(At(200), run.script.Launch(At(160), {Decode(R(0), 5)}), {Last(R(0))});
    EXPECT_EQ(run.Number("slo_attainment"), c.kept ? 1 : 0);
  }
}

TEST_F(MetricsCollectorTest, CountsRejectedAndCancelledRequestsAsMissesAndUnfinishedApart) {
  MetricsConfig config = Config();
  config.goal.ttft = Duration{1'000'000'000};
  Run run(config);
  for (std::uint32_t i = 0; i < 4; ++i) run.script.Arrive(At(0), R(i), 4);
  StepPlan plan;
  plan.work = {Prefill(R(0), 0, 4), Prefill(R(2), 0, 4)};
  plan.rejected = {{R(1), RejectReason::kTooLongForModel}};
  const StepId step = run.script.Launch(At(0), plan);
  run.script.Cancel(At(5), R(2));
  // The token of the cancelled request is dropped.
  run.script.Finish(At(10), step, {Last(R(0))});
  EXPECT_EQ(run.Number("completed"), 1);
  EXPECT_EQ(run.Number("rejected"), 1);
  EXPECT_EQ(run.Number("cancelled"), 1);
  EXPECT_EQ(run.Number("requests"), 3);
  EXPECT_EQ(run.Number("unfinished"), 1);
  EXPECT_DOUBLE_EQ(run.Number("slo_attainment"), 1 / 3.0);
  EXPECT_EQ(run.Number("total_output_tokens"), 1);
}

TEST_F(MetricsCollectorTest, TellsNoGoodputWithoutAGoal) {
  Run run(Config());
  TellGoldenExample(run.script);
  run.script.Close();
  EXPECT_EQ(run.collector.Summarise().Find("request_goodput"), nullptr);
}

TEST_F(MetricsCollectorTest, WeighsKvUseAndCensusByTime) {
  // 0-10 ms: nothing planned, one waits. 10-30: 4 of 10 blocks, one runs. 30-40: idle.
  // 40-50: 9 blocks. Mean KV share = (20 * 0.4 + 10 * 0.9) / 50.
  Run run(Config());
  run.script.Arrive(At(0), R(0), 4);
  StepPlan plan;
  plan.work = {Prefill(R(0), 0, 4)};
  plan.admitted = {R(0)};
  plan.free_blocks = 6;
  run.script.Finish(At(30), run.script.Launch(At(10), plan), {Last(R(0))});
  run.script.Arrive(At(40), R(1), 4);
  plan.work = {Prefill(R(1), 0, 4)};
  plan.admitted = {R(1)};
  plan.free_blocks = 1;
  run.script.Finish(At(50), run.script.Launch(At(40), plan), {Last(R(1))});
  EXPECT_DOUBLE_EQ(run.Number("mean_kv_used_share"), 0.34);
  EXPECT_DOUBLE_EQ(run.Number("max_kv_used_share"), 0.9);
  EXPECT_DOUBLE_EQ(run.Number("mean_waiting"), 0.2);
  EXPECT_DOUBLE_EQ(run.Number("mean_running"), 0.6);
  EXPECT_DOUBLE_EQ(run.Number("busy_share"), 0.6);
  EXPECT_EQ(run.Number("max_running"), 1);
  EXPECT_EQ(run.Number("max_waiting"), 1);
}

TEST_F(MetricsCollectorTest, CountsOverlappingStepsOnceAsBusy) {
  // Two stages: step 1 runs 0-20, step 2 10-30, step 3 40-50 of 50 ms: busy 40.
  Run run(Config());
  run.script.Arrive(At(0), R(0), 4);
  run.script.Arrive(At(0), R(1), 4);
  const StepId first = run.script.Launch(At(0), {Prefill(R(0), 0, 4)});
  const StepId second = run.script.Launch(At(0), {Prefill(R(1), 0, 4)});
  run.script.Finish(At(20), first);
  run.script.Finish(At(30), second, {}, At(10));
  const StepId third = run.script.Launch(At(30), {Decode(R(0), 4)});
  run.script.Finish(At(50), third, {Last(R(0))}, At(40));
  EXPECT_DOUBLE_EQ(run.Number("busy_share"), 0.8);
}

TEST_F(MetricsCollectorTest, AddsUpPaddingAndSequences) {
  Run run(Config());
  run.script.Arrive(At(0), R(0), 6);
  run.script.Arrive(At(0), R(1), 10);
  StepPlan plan;
  plan.work = {Prefill(R(0), 0, 6), Prefill(R(1), 0, 10)};
  plan.work[0].padded_tokens = plan.work[1].padded_tokens = 10;
  run.script.Finish(At(10), run.script.Launch(At(0), plan), {Last(R(1))});
  plan.work = {Decode(R(0), 6)};
  plan.padding_rows = {R(1)};
  run.script.Finish(At(20), run.script.Launch(At(10), plan), {Last(R(0))});
  // Computed 16 + 1, padding 4 + 1.
  EXPECT_DOUBLE_EQ(run.Number("padding_share"), 5 / 22.0);
  EXPECT_DOUBLE_EQ(run.Number("mean_batch_tokens"), 11);
  EXPECT_DOUBLE_EQ(run.Number("mean_batch_sequences"), 1.5);
}

TEST_F(MetricsCollectorTest, TellsTenantsApart) {
  MetricsConfig config = Config();
  config.by_tenant = true;
  Run run(config);
  run.script.Arrive(At(0), R(0), 4, 7);
  run.script.Arrive(At(0), R(1), 6, 2);
  const StepId step = run.script.Launch(At(0), {Prefill(R(0), 0, 4), Prefill(R(1), 0, 6)});
  run.script.Finish(At(10), step, {Last(R(0))});
  run.script.Finish(At(30), run.script.Launch(At(10), {Decode(R(1), 6)}), {Last(R(1))});
  EXPECT_EQ(run.Number("tenant_2_completed"), 1);
  EXPECT_DOUBLE_EQ(run.Number("tenant_2_mean_tpot_ms"), 20);
  EXPECT_EQ(run.Number("tenant_7_total_output_tokens"), 1);
  EXPECT_EQ(run.Number("completed"), 2);
}

// 22 tenants: tenant t sends t requests, all rejected. The two that send least, 1 and 2, are summed
// up as one.
TEST_F(MetricsCollectorTest, NamesTheLargestTenantsAndSumsUpTheOthers) {
  MetricsConfig config = Config();
  config.by_tenant = true;
  Run run(config);
  StepPlan plan;
  std::uint32_t id = 0;
  for (std::uint32_t tenant = 1; tenant <= 22; ++tenant) {
    for (std::uint32_t i = 0; i < tenant; ++i, ++id) {
      run.script.Arrive(At(0), R(id), 4, tenant);
      plan.rejected.push_back({R(id), RejectReason::kTooLargeForCache});
    }
  }
  run.script.Finish(At(1), run.script.Launch(At(0), plan));
  EXPECT_EQ(run.Number("tenant_3_requests"), 3);
  EXPECT_EQ(run.Number("tenant_22_rejected_too_large_for_cache"), 22);
  EXPECT_EQ(run.Number("tenant_others_requests"), 1 + 2);
  const Summary summary = run.collector.Summarise();
  EXPECT_EQ(summary.Find("tenant_1_requests"), nullptr);
  EXPECT_EQ(summary.Find("tenant_2_requests"), nullptr);
}

TEST_F(MetricsCollectorTest, CountsRejectionsByReasonAndOutputsThatTheContextCut) {
  Run run(Config());
  for (std::uint32_t i = 0; i < 4; ++i) run.script.Arrive(At(0), R(i), 4);
  StepPlan plan;
  plan.work = {Prefill(R(0), 0, 4), Prefill(R(3), 0, 4)};
  plan.rejected = {{R(1), RejectReason::kTooLongForModel}, {R(2), RejectReason::kTooLargeForCache}};
  ItemOutcome stopped = Last(R(3));
  stopped.finish = FinishReason::kStop;
  run.script.Finish(At(10), run.script.Launch(At(0), plan), {Last(R(0)), stopped});
  EXPECT_EQ(run.Number("rejected"), 2);
  EXPECT_EQ(run.Number("rejected_too_long_for_model"), 1);
  EXPECT_EQ(run.Number("rejected_too_large_for_cache"), 1);
  EXPECT_EQ(run.Number("cut_outputs"), 1);  // kLength after 1 of 2^20 tokens; kStop is no cut
}

TEST_F(MetricsCollectorTest, SharesThePrefixHitsOfTheFirstAdmissionAmongPromptTokens) {
  Run run(Config());
  run.script.Arrive(At(0), R(0), 40);
  StepPlan plan;
  plan.admitted = {R(0)};
  plan.hits = {{R(0), 32}};
  plan.work = {Prefill(R(0), 32, 8)};
  run.script.Finish(At(10), run.script.Launch(At(0), plan), {Last(R(0))});
  EXPECT_DOUBLE_EQ(run.Number("prefix_hit_share"), 0.8);
}

}  // namespace
}  // namespace twin
