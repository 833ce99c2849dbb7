// Capacity: the value where a bound breaks, against theory and against a grid of runs.
#include "run/many/capacity.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/input_error.h"
#include "run/many/capacity_runs.h"
#include "run/simulation.h"
#include "tests/unit/run/reports.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

// One server of one request at a time, 10 ms each: M/D/1.
constexpr const char* kServer = R"(
seed: 1
workload {
  requests: 1000
  arrivals { kind: poisson rate: 1 }
  shape { prompt { kind: fixed value: 16 } output { kind: fixed value: 1 } }
}
policy { orca { max_bs: 1 max_model_len: 64 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 60 } }
cost { linear { base_s: 0.01 } }
)";

class CapacityTest : public ::testing::Test {
 protected:
  CapacityTest() { Write("server.textproto", kServer); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_.File(name), std::ios::binary) << text;
  }

  [[nodiscard]] ExperimentTemplate Read(const std::string& name) const {
    return ExperimentTemplate(scratch_.File(name));
  }

  [[nodiscard]] CapacityAnswer Find(const CapacityQuestion& question,
                                    const std::vector<std::string>& names = {
                                        "server.textproto"}) const {
    std::vector<ExperimentTemplate> experiments;
    for (const std::string& name : names) experiments.push_back(Read(name));
    RunControl control;
    return FindCapacities(experiments, names, question, control);
  }

  // A wait of 35/3 ms is that of M/D/1 at 70 % of 100 requests/s: 0.7 * 10 / (2 * 0.3) ms
  // (Pollaczek and Khinchine; Kleinrock, Queueing Systems, volume 1, 1975).
  static CapacityQuestion MeanWait() {
    return {.path = "workload.arrivals.rate",
            .from = 10,
            .to = 150,
            .bounds = ParseBounds("mean_queue_ms<=11.6667"),
            .jobs = 2};
  }

  ScratchDirectory scratch_{
      std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())};
};

TEST_F(CapacityTest, IsThatOfQueueingTheory) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 3;
  const Capacity found = Find(question).capacities.front();
  EXPECT_EQ(found.verdict, Capacity::Verdict::kFound);
  EXPECT_EQ(found.limiting, "mean_queue_ms<=11.6667");
  EXPECT_NEAR(found.value, 70, 1.4);
  EXPECT_LT(found.low, 70);
  EXPECT_GT(found.high, 70);
  EXPECT_LT(found.high - found.low, 20);
  EXPECT_EQ(found.root.without.size(), 20u);
  EXPECT_GT(found.requests, 1000);
}

// The same seeds on a grid of 1 request/s from 10 to 150 take 141 * 20 runs.
TEST_F(CapacityTest, IsWhereAFineGridWithTheSameSeedsBreaksTheBound) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 0;
  const Capacity found = Find(question).capacities.front();
  const ExperimentTemplate experiment = Read("server.textproto");
  RunControl control;
  int last = 0;
  for (int rate = 64; rate <= 80; ++rate) {
    double sum = 0;
    for (int seed = 1; seed <= 20; ++seed) {
      const std::vector<std::string> changes = {fmt::format("workload.arrivals.rate={}", rate),
                                                fmt::format("seed={}", seed)};
      sum +=
          Simulate(Resolve(experiment.With(changes, {})), control).summary.Number("mean_queue_ms");
    }
    if (sum / 20 <= 11.6667) last = rate;
  }
  EXPECT_GE(found.value, last);
  EXPECT_LT(found.value, last + 1);
  EXPECT_LT(found.runs, 141 * 20 / 5);
  EXPECT_EQ(found.settled, Capacity::Settled::kNo);  // nobody has looked at longer runs
}

TEST_F(CapacityTest, OfAWholeNumberIsTheLargestThatHolds) {
  // Prompts of 16 tokens in blocks of 16: each of n outputs takes a step, so that e2e of a lonely
  // request is 10 ms a token. 7 tokens take 70 ms.
  Write("lonely.textproto",
        "base: \"server.textproto\"\nworkload { arrivals { kind: constant rate: 0.1 } requests: 20 "
        "}");
  CapacityQuestion question{.path = "workload.shape.output.value",
                            .from = 1,
                            .to = 40,
                            .bounds = ParseBounds("max_e2el_ms<=74"),
                            .replications = 2,
                            .doublings_max = 1,
                            .jobs = 1};
  const Capacity found = Find(question, {"lonely.textproto"}).capacities.front();
  EXPECT_EQ(found.value, 7);
  EXPECT_EQ(found.settled, Capacity::Settled::kYes);
}

// Each of three replicas gets one of 250 requests a second, at equal distances, every 12 ms and
// serves it in 10 ms: nobody waits. Each of two gets one every 8 ms, and the queue grows by 2 ms a
// request.
CapacityQuestion FewestReplicas() {
  return {.path = "system.replicas",
          .from = 1,
          .to = 9,
          .smallest = true,
          .bounds = ParseBounds("mean_queue_ms<=1"),
          .replications = 10,
          .doublings_max = 1,
          .jobs = 1};
}

TEST_F(CapacityTest, TheSmallestValueIsSearchedFromAbove) {
  Write("fleet.textproto",
        "base: \"server.textproto\"\nworkload { arrivals { kind: constant rate: 250 } requests: 60 "
        "}");
  const Capacity found = Find(FewestReplicas(), {"fleet.textproto"}).capacities.front();
  EXPECT_EQ(found.verdict, Capacity::Verdict::kFound);
  EXPECT_EQ(found.value, 3);
  EXPECT_EQ(found.low, 2);   // rejected
  EXPECT_EQ(found.high, 3);  // accepted
  // Nothing is drawn: no seed moves the point where the line between 2 and 3 crosses the bound.
  EXPECT_GT(found.by_seed.value, 2);
  EXPECT_LT(found.by_seed.value, 3);
  EXPECT_EQ(found.by_seed.low, found.by_seed.value);
  EXPECT_EQ(found.change.low, found.change.high);
  EXPECT_NEAR(found.change.value, 0, 0.1);
  EXPECT_EQ(found.limiting, "mean_queue_ms<=1");
  EXPECT_EQ(found.settled, Capacity::Settled::kYes);
  for (const CapacityProbe& probe : found.probes) {
    EXPECT_EQ(probe.verdict, probe.x < 3 ? Sign::kNegative : Sign::kPositive) << probe.x;
  }
}

TEST_F(CapacityTest, TheSmallestValueMayLieBeyondTheRange) {
  Write("fleet.textproto",
        "base: \"server.textproto\"\nworkload { arrivals { kind: constant rate: 250 } requests: 60 "
        "}");
  CapacityQuestion question = FewestReplicas();
  question.from = 4;
  const Capacity everywhere = Find(question, {"fleet.textproto"}).capacities.front();
  EXPECT_EQ(everywhere.verdict, Capacity::Verdict::kHoldsEverywhere);
  EXPECT_EQ(everywhere.value, 4);
  question.from = 1;
  question.to = 2;
  const Capacity nowhere = Find(question, {"fleet.textproto"}).capacities.front();
  EXPECT_EQ(nowhere.verdict, Capacity::Verdict::kHoldsNowhere);
  EXPECT_TRUE(std::isnan(nowhere.value));
}

// All values have the same server, prompts and shares.
TEST_F(CapacityTest, SaysOnceWhatTheServerDoesAndTheSimulationDoesNot) {
  Write("shared.textproto", R"(
seed: 1
workload {
  requests: 20
  arrivals { kind: poisson rate: 1 }
  shape {
    prompt { kind: fixed value: 200 }
    output { kind: fixed value: 5 }
    shared_prefix { prompts: 1 tokens: 4000 }
  }
}
system { model: "llama-3-8b" hardware: "h100-sxm" server: "trtllm-1.0.0" }
)");
  Reports reports;
  FindCapacities({Read("shared.textproto")}, {"shared.textproto"},
                 {.path = "workload.arrivals.rate",
                  .from = 1,
                  .to = 100,
                  .bounds = ParseBounds("mean_ttft_ms<=1000"),
                  .replications = 10,
                  .doublings_max = 0,
                  .jobs = 2},
                 reports);
  EXPECT_THAT(reports.warnings, ::testing::ElementsAre(
                                    HasSubstr("90 % of the prompt tokens repeat earlier prompts")));
}

TEST_F(CapacityTest, SaysWhenTheBoundsHoldEverywhereOrNowhere) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 0;
  question.to = 40;
  const Capacity everywhere = Find(question).capacities.front();
  EXPECT_EQ(everywhere.verdict, Capacity::Verdict::kHoldsEverywhere);
  EXPECT_EQ(everywhere.value, 40);
  EXPECT_EQ(everywhere.limiting, "");
  question.bounds = ParseBounds("mean_e2el_ms<=9");
  const Capacity nowhere = Find(question).capacities.front();
  EXPECT_EQ(nowhere.verdict, Capacity::Verdict::kHoldsNowhere);
  EXPECT_TRUE(std::isnan(nowhere.value));
}

// Two at a time in the same 10 ms: about twice the rate, with the same arrivals.
TEST_F(CapacityTest, ComparesExperimentsOnTheSameSeeds) {
  Write("twice.textproto", "base: \"server.textproto\"\npolicy { orca { max_bs: 2 } }");
  CapacityQuestion question = MeanWait();
  question.to = 300;
  question.replications = 10;
  question.doublings_max = 0;
  const CapacityAnswer answer = Find(question, {"server.textproto", "twice.textproto"});
  ASSERT_EQ(answer.comparisons.size(), 1u);
  const PairedComparison& paired = answer.comparisons[0].paired;
  EXPECT_GT(paired.ratio.low, 1.5);
  EXPECT_LT(paired.ratio.high, 3);
  EXPECT_GT(paired.correlation, 0.3);
}

TEST_F(CapacityTest, DoesNotDependOnTheNumberOfThreads) {
  CapacityQuestion question = MeanWait();
  question.replications = 5;
  question.doublings_max = 1;
  question.tolerance = 0.05;
  question.jobs = 1;
  const Capacity one = Find(question).capacities.front();
  question.jobs = 3;
  const Capacity three = Find(question).capacities.front();
  EXPECT_EQ(one.value, three.value);
  EXPECT_EQ(one.root.without, three.root.without);
  EXPECT_EQ(one.runs, three.runs);
}

class StopAtOnce final : public RunControl {
 public:
  [[nodiscard]] bool StopRequested() const override { return true; }
};

// A precision relative to the value is never reached at 0, and a step relative to it does not move.
TEST_F(CapacityTest, AValueOfZeroEndsTheSearch) {
  Write("late.textproto",
        "base: \"server.textproto\"\nworkload { arrivals { kind: constant rate: 0.1 } requests: 20 "
        "}");
  // A request takes 10 ms and 16 times the setting: the bound holds near 0 alone.
  const CapacityQuestion question{.path = "cost.linear.per_prefill_token_s",
                                  .from = 0,
                                  .to = 1,
                                  .bounds = ParseBounds("max_e2el_ms<=10.000001"),
                                  .replications = 2,
                                  .doublings_max = 2,
                                  .jobs = 1};
  const Capacity found = Find(question, {"late.textproto"}).capacities.front();
  EXPECT_EQ(found.verdict, Capacity::Verdict::kFound);
  EXPECT_LT(found.value, question.tolerance / 64);
  EXPECT_EQ(found.settled, Capacity::Settled::kYes);
}

TEST_F(CapacityTest, ARequestToStopEndsASearchWithoutNewRuns) {
  const ExperimentTemplate experiment = Read("server.textproto");
  const CapacityQuestion question = MeanWait();
  StopAtOnce control;
  CapacityRuns runs(experiment, question, control);
  EXPECT_THROW(runs.Run(20, 0), SearchStopped);  // nothing is missing
}

// After 2 s, no more requests come.
TEST_F(CapacityTest, WithoutLongerRunsTheirEffectIsNotTestable) {
  Write("two_seconds.textproto",
        "base: \"server.textproto\"\nworkload { requests: 0 duration_s: 2 }");
  CapacityQuestion question = MeanWait();
  question.replications = 2;
  const Capacity without = Find(question, {"two_seconds.textproto"}).capacities.front();
  EXPECT_EQ(without.settled, Capacity::Settled::kNotTestable);
  EXPECT_GT(without.requests, 0);
  Write("two_seconds.textproto",
        "base: \"server.textproto\"\nworkload { requests: 1000 duration_s: 2 }");
  const Capacity cut = Find(question, {"two_seconds.textproto"}).capacities.front();
  EXPECT_EQ(cut.settled, Capacity::Settled::kNotTestable);
  EXPECT_LT(cut.requests, 1000);
}

// Another experiment of the same question can be tested, and is doubled.
TEST_F(CapacityTest, EachExperimentSaysWhetherItsValueIsSettled) {
  Write("short.textproto", "base: \"server.textproto\"\nworkload { requests: 0 duration_s: 2 }");
  CapacityQuestion question = MeanWait();
  question.replications = 2;
  question.doublings_max = 1;
  const std::vector<Capacity> found =
      Find(question, {"short.textproto", "server.textproto"}).capacities;
  EXPECT_EQ(found[0].settled, Capacity::Settled::kNotTestable);
  EXPECT_NE(found[1].settled, Capacity::Settled::kNotTestable);
  EXPECT_EQ(found[1].requests, 2000);
}

// The end of the range cuts no seed off: a root without a seed may lie beyond it.
TEST_F(CapacityTest, TheIntervalDoesNotDependOnTheEndOfTheRange) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 0;
  const Capacity all = Find(question).capacities.front();
  question.to = all.value * 1.005;
  const Capacity cut = Find(question).capacities.front();
  ASSERT_EQ(cut.verdict, Capacity::Verdict::kFound);
  EXPECT_NEAR(cut.by_seed.value, all.by_seed.value, 0.02 * all.value);
  const double width = all.by_seed.high - all.by_seed.low;
  EXPECT_NEAR(cut.by_seed.high - cut.by_seed.low, width, 0.3 * width);
}

// The values of five lengths of one queue differ by chance: closeness of two is not enough.
TEST_F(CapacityTest, AValueIsSettledOnceItsChangeIsShownToBeSmall) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 2;
  question.replications = 10;
  const Capacity few = Find(question).capacities.front();
  EXPECT_GT(few.change.high - few.change.low, 2 * 0.01 * few.value);
  EXPECT_EQ(few.settled, Capacity::Settled::kNo);
  EXPECT_EQ(few.requests, 4000);
  question.tolerance = 0.2;
  const Capacity wide = Find(question).capacities.front();
  EXPECT_EQ(wide.settled, Capacity::Settled::kYes);
  EXPECT_GE(wide.change.low, -0.2 * wide.value);
  EXPECT_LE(wide.change.high, 0.2 * wide.value);
  question.doublings_max = 0;
  EXPECT_TRUE(std::isnan(Find(question).capacities.front().change.value));
}

TEST_F(CapacityTest, TheValueLiesBetweenConfirmedEnds) {
  CapacityQuestion question = MeanWait();
  question.doublings_max = 1;
  for (const double to : {40.0, 70.0, 72.0, 75.0}) {
    question.to = to;
    const Capacity found = Find(question).capacities.front();
    EXPECT_FALSE(std::isnan(found.value)) << to;
    EXPECT_LE(found.value, to);
    if (found.verdict == Capacity::Verdict::kFound) {
      EXPECT_NE(found.limiting, "") << to;
    }
  }
}

TEST_F(CapacityTest, RefusesWhatItCannotAnswer) {
  CapacityQuestion question = MeanWait();
  question.path = "workload.arrivals.rat";
  EXPECT_THROW((void)Find(question), InputError);
  question = MeanWait();
  question.from = 200;
  EXPECT_THROW((void)Find(question), InputError);
  question = MeanWait();
  question.to = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)Find(question), InputError);
  question = MeanWait();
  question.bounds = ParseBounds("slo_attainment>=0.9");  // without an slo
  EXPECT_THROW((void)Find(question), InputError);
}

TEST(BoundsTest, AreReadWithAndWithoutSpaces) {
  const std::vector<MetricBound> bounds =
      ParseBounds("p99_ttft_ms<=1000 &&  slo_attainment >= 0.9&&mean_tpot_ms < 5e1");
  ASSERT_EQ(bounds.size(), 3u);
  EXPECT_EQ(bounds[0].text(), "p99_ttft_ms<=1000");
  EXPECT_EQ(bounds[1].kind, MetricBound::Kind::kAtLeast);
  EXPECT_EQ(bounds[2].limit, 50);
  EXPECT_TRUE(bounds[1].Holds(0.9));
  EXPECT_FALSE(bounds[0].Holds(1001));
}

TEST(BoundsTest, MistakesSayWhatIsAllowed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      (void)ParseBounds(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("p99_tft_ms<=1"), HasSubstr("nearest: p99_ttft_ms"));
  EXPECT_THAT(error_of("p99_ttft_ms=1"), HasSubstr("METRIC<=NUMBER"));
  EXPECT_THAT(error_of("p99_ttft_ms<=fast"), HasSubstr("no number"));
  EXPECT_THAT(error_of("digest<=1"), HasSubstr("is a text"));
  EXPECT_THAT(error_of("p99_ttft_ms<=1 &&"), HasSubstr("compares nothing"));
}

// Clients leave after 100 ms. Above the server's 100 requests/s, those who stay are answered within
// that time at any rate: a percentile of the few keeps no promise to the many.
TEST_F(CapacityTest, APercentileOfTheFewIsNoPromise) {
  Write("impatient.textproto",
        std::string(kServer) + "world { simulated { client_timeout_s: 0.1 } }");
  CapacityQuestion question = MeanWait();
  question.bounds = ParseBounds("p99_ttft_ms<=100");
  question.from = 10;
  question.to = 1000;
  question.replications = 10;
  question.doublings_max = 1;
  const Capacity found = Find(question, {"impatient.textproto"}).capacities[0];
  EXPECT_EQ(found.verdict, Capacity::Verdict::kFound);
  EXPECT_LT(found.value, 105);
}

TEST_F(CapacityTest, AMetricThatNoClientCouldMeasureIsNotJudged) {
  std::string text = kServer;
  text.replace(text.find("orca { max_bs: 1 max_model_len: 64 }"), 36,
               "static { max_batch_size: 8 max_model_len: 64 }");
  text.replace(text.find("60 }"), 4, "600 }");
  Write("static.textproto", text);
  CapacityQuestion question = MeanWait();
  question.bounds = ParseBounds("p99_tpot_ms<=5");
  try {
    (void)Find(question, {"static.textproto"});
    FAIL() << "judged";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("p99_tpot_ms: is undefined with policy static"));
  }
}

TEST_F(CapacityTest, SaysThatTheServerIsSaturatedWhereTheBoundDoesNotTell) {
  CapacityQuestion question = MeanWait();
  question.bounds = ParseBounds("request_throughput>=1");
  question.from = 150;
  question.to = 300;
  question.replications = 10;
  const Capacity found = Find(question).capacities[0];
  EXPECT_EQ(found.verdict, Capacity::Verdict::kHoldsEverywhere);
  EXPECT_TRUE(found.saturated);
  question.from = 10;
  question.to = 50;
  EXPECT_FALSE(Find(question).capacities[0].saturated);
}

}  // namespace
}  // namespace twin::run
