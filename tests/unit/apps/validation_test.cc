#include "apps/validate/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "apps/validate/validation_report.h"
#include "core/input_error.h"
#include "run/record/recording_world.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/vllm_v1.h"
#include "sched/serve.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/fitted_config.h"
#include "tests/support/simulated_run.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using std::chrono::milliseconds;
using ::testing::DoubleNear;
using ::testing::HasSubstr;

constexpr KvPoolConfig kCache{16, 64, 0, ReleaseOrder::kBack};

VllmV1Config Policy() {
  VllmV1Config policy;
  policy.release = VllmV1Release::k0_15_1;
  policy.async_scheduling = false;
  policy.enable_prefix_caching = false;
  policy.max_model_len = 512;
  return policy;
}

// Three requests; steps take 1 ms on the host and `device` on the device.
void Simulate(Duration device, RecordedRun& events, std::int32_t max_num_seqs = 256,
              std::optional<Duration> client_timeout = std::nullopt) {
  testing::ListedSource source({testing::Asked(kTimeZero, 20, 5), testing::Asked(kTimeZero, 30, 9),
                                testing::Asked(kTimeZero + milliseconds(200), 10, 4)});
  const sim::ConstantCost cost({.host_time = milliseconds(1), .step_time = device}, 1);
  sim::SimWorld world(source, cost, {.client_timeout = client_timeout});
  EngineConfig config;
  config.kv = kCache;
  VllmV1Config policy = Policy();
  policy.max_num_seqs = max_num_seqs;
  Engine engine(config, MakePolicy(policy, kCache));
  RunObserver* const observers[] = {&events};
  RecordingWorld recorded(world, observers);
  Serve(engine, recorded);
}

// A run whose steps take 1 ms of schedule, 7 of GEMMs, 2 of attention and 1 of the rest.
class ValidationTest : public ::testing::Test {
 protected:
  ValidationTest() { Measure(run); }

  // Fills `to`, which must be empty.
  static void Measure(MeasuredRun& to, std::optional<Duration> client_timeout = std::nullopt) {
    Simulate(milliseconds(10), to.events, 256, client_timeout);
    to.path = "real";
    to.config.name = "three";
    to.config.policy = Policy();
    RealWorldConfig real;
    real.client_timeout = client_timeout;
    to.config.world = real;
    to.header = {.config = "",
                 .seed = 0,
                 .version = "",
                 .policy = "vllm_v1",
                 .delivery = Delivery::kPerStep,
                 .engine = {},
                 .groups = {}};
    to.header.engine.kv = kCache;
    for (const RecordedRun::Moment& moment : to.events.moments()) {
      for (std::size_t i = 0; i < moment.plans.size(); ++i) {
        StepTimes& times = to.steps.emplace_back();
        times.planned = moment.now;
        const bool works = !moment.plans[i].work.empty();
        times.parts[StepPart::kSchedule] = milliseconds(1);
        times.parts[StepPart::kGemm] = milliseconds(works ? 7 : 0);
        times.parts[StepPart::kAttention] = milliseconds(works ? 2 : 0);
        times.parts[StepPart::kOther] = milliseconds(works ? 1 : 0);
        times.started = times.planned + milliseconds(1);
        times.told = times.finished = times.started + times.parts.device();
      }
    }
  }

  MeasuredRun run;
};

// Predicts `gemm` for the GEMMs of a step, and all else as it is.
class GemmCost final : public sim::StepCost {
 public:
  explicit GemmCost(Duration gemm) : gemm_(gemm) {}
  [[nodiscard]] Duration HostTime(const StepPlan& /*plan*/) const override {
    return milliseconds(1);
  }
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override {
    stage_times[0] = Parts(plan)->device();
  }
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override {
    StepParts parts;
    parts[StepPart::kSchedule] = milliseconds(1);
    if (plan.work.empty()) return parts;
    parts[StepPart::kGemm] = gemm_;
    parts[StepPart::kAttention] = milliseconds(2);
    parts[StepPart::kOther] = milliseconds(1);
    return parts;
  }

 private:
  Duration gemm_;
};

const MetricComparison& Metric(const Validation& validation, const std::string& name) {
  for (const MetricComparison& metric : validation.metrics) {
    if (metric.name == name) return metric;
  }
  throw std::runtime_error("no metric " + name);
}

double Share(const MetricComparison& metric, const std::string& cause) {
  for (const Contribution& part : metric.attribution) {
    if (part.cause == cause) return part.amount;
  }
  throw std::runtime_error("no cause " + cause);
}

bool Has(const MetricComparison& metric, const std::string& cause) {
  return std::any_of(metric.attribution.begin(), metric.attribution.end(),
                     [&](const Contribution& part) { return part.cause == cause; });
}

// A step takes 12 ms instead of 11: a token each, so 1 ms more in TTFT (one step) and in TPOT.
TEST_F(ValidationTest, BlamesTheGemmsForWhatTheyAreWrongBy) {
  RecordedRun simulated;
  Simulate(milliseconds(11), simulated);
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, simulated, GemmCost(milliseconds(8)));
  EXPECT_TRUE(validation.digest_equal) << validation.difference;
  for (const char* name : {"mean_ttft_ms", "mean_tpot_ms"}) {
    const MetricComparison& metric = Metric(validation, name);
    EXPECT_THAT(metric.predicted - metric.measured, DoubleNear(1, 1e-9)) << name;
    EXPECT_THAT(Share(metric, "gemm"), DoubleNear(1, 1e-9)) << name;
    for (const char* other : {"arrival_jitter", "host", "attention", "other", "unexplained"}) {
      EXPECT_THAT(Share(metric, other), DoubleNear(0, 1e-9)) << name << " " << other;
    }
    EXPECT_FALSE(metric.repeat_noise_percent);
  }
}

// Steps of 14 ms where the model says 11 ms: nothing explains the other 3 ms, as the plans are
// equal.
TEST_F(ValidationTest, TheRestIsUnexplainedIfThePlansAreEqual) {
  RecordedRun simulated;
  Simulate(milliseconds(14), simulated);
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, simulated, GemmCost(milliseconds(7)));
  const MetricComparison& metric = Metric(validation, "mean_tpot_ms");
  EXPECT_THAT(Share(metric, "gemm"), DoubleNear(0, 1e-9));
  EXPECT_THAT(Share(metric, "unexplained"), DoubleNear(4, 1e-9));
  EXPECT_FALSE(Has(metric, "decisions"));
}

TEST_F(ValidationTest, TheRestIsLaidToDecisionsIfThePlansDiffer) {
  RecordedRun simulated;
  Simulate(milliseconds(14), simulated, /*max_num_seqs=*/1);
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, simulated, GemmCost(milliseconds(7)));
  const MetricComparison& metric = Metric(validation, "mean_tpot_ms");
  EXPECT_NE(Share(metric, "decisions"), 0);
  EXPECT_FALSE(Has(metric, "unexplained"));
}

// Steps of 11 ms: 9 tokens take 99 ms, and one client gives up after 80. Predicted are 6 ms: 54 ms.
TEST_F(ValidationTest, CountsWhoGivesUpAndComparesThoseWhoStay) {
  MeasuredRun hurried;
  Measure(hurried, milliseconds(80));
  RecordedRun simulated;
  Simulate(milliseconds(5), simulated, 256, milliseconds(80));
  const MeasuredRun* const runs[] = {&hurried};
  const Validation validation = Validate(runs, simulated, GemmCost(milliseconds(2)));
  EXPECT_TRUE(validation.digest_equal) << validation.difference;
  EXPECT_EQ(validation.completed, 2);
  ASSERT_TRUE(validation.endings.has_value());
  EXPECT_EQ(validation.endings->predicted, (Endings{.completed = 3, .cancelled = 0}));
  EXPECT_THAT(validation.endings->measured,
              ::testing::ElementsAre(Endings{.completed = 2, .cancelled = 1}));
  // Measured: 5 and 4 tokens, 55 and 44 ms. Predicted: 9 tokens as well, 30, 54 and 24 ms.
  const MetricComparison& latency = Metric(validation, "mean_e2el_ms");
  EXPECT_NEAR(latency.measured, 49.5, 1e-9);
  EXPECT_NEAR(latency.predicted, 36, 1e-9);
  // At the recorded decisions the two take 30 and 24 ms; the third one is of other decisions.
  EXPECT_NEAR(Share(latency, "gemm"), 27 - 49.5, 1e-9);
  EXPECT_NEAR(Share(latency, "decisions"), 36 - 27, 1e-9);
  std::ostringstream text;
  WriteValidationText(text, validation);
  EXPECT_THAT(text.str(), HasSubstr("give up after 0.08 s: measured 1 of 3, predicted 0 of 3"));
  const auto json = nlohmann::json::parse(ValidationJson(validation));
  EXPECT_EQ(json["endings"]["measured"][0]["cancelled"], 1);
  EXPECT_EQ(json["endings"]["predicted"]["completed"], 3);
}

TEST_F(ValidationTest, NeedsARequestThatCompletes) {
  MeasuredRun hurried;
  Measure(hurried, milliseconds(80));
  RecordedRun simulated;
  Simulate(milliseconds(90), simulated, 256, milliseconds(80));
  const MeasuredRun* const runs[] = {&hurried};
  EXPECT_THAT([&] { Validate(runs, simulated, GemmCost(milliseconds(87))); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("every client gave up")));
}

TEST_F(ValidationTest, ReportsRunsThatTheMachineDisturbed) {
  MeasuredRun& first = run;
  first.machine = RunMachine{.steal_share = 0.02, .other_load = 0.5, .disturbed = true};
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, run.events, GemmCost(milliseconds(7)));
  const auto json = nlohmann::json::parse(ValidationJson(validation));
  EXPECT_EQ(json["disturbed_runs"], 1);
  EXPECT_EQ(json["machines"][0]["steal_share"], 0.02);
  std::ostringstream text;
  WriteValidationText(text, validation);
  EXPECT_THAT(text.str(), HasSubstr("real run 1: 2.0 % of the CPU time stolen"));
}

TEST_F(ValidationTest, TakesTheSpeedOfTheMachineFromTheProbes) {
  std::vector<std::unique_ptr<MeasuredRun>> runs;
  for (const double decode_s : {1e-3, 2e-3}) {
    runs.push_back(std::make_unique<MeasuredRun>());
    runs.back()->probes = RunProbes{.decode_s = decode_s, .prefill_s = 4e-3};
  }
  sim::FittedCostConfig cost;
  EXPECT_FALSE(SpeedDuring(runs, cost));
  cost.decode_probe_s = 1e-3;
  cost.prefill_probe_s = 5e-3;
  EXPECT_DOUBLE_EQ(SpeedDuring(runs, cost)->decode_slowdown, 1.5);
  EXPECT_DOUBLE_EQ(SpeedDuring(runs, cost)->prefill_slowdown, 0.8);
  runs.back()->probes.reset();
  EXPECT_FALSE(SpeedDuring(runs, cost));
}

TEST_F(ValidationTest, ContributionsOfEveryMetricSumToItsError) {
  RecordedRun simulated;
  Simulate(milliseconds(12), simulated);
  const MeasuredRun* const runs[] = {&run, &run};
  const Validation validation = Validate(runs, simulated, GemmCost(milliseconds(5)));
  for (const MetricComparison& metric : validation.metrics) {
    double sum = 0;
    for (const Contribution& part : metric.attribution) sum += part.amount;
    EXPECT_THAT(sum, DoubleNear(metric.predicted - metric.measured, 1e-9)) << metric.name;
    EXPECT_EQ(metric.repeat_noise_percent, 0) << metric.name;
  }
}

TEST_F(ValidationTest, ComparesStepsWithTheirCompositionGiven) {
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, run.events, GemmCost(milliseconds(8)));
  ASSERT_EQ(validation.steps.front().kind, "all");
  EXPECT_THAT(validation.steps.front().measured_ms, DoubleNear(10, 1e-9));
  EXPECT_THAT(validation.steps.front().bias_percent(), DoubleNear(10, 1e-9));
  EXPECT_THAT(validation.steps.front().median_error_percent, DoubleNear(10, 1e-9));
  EXPECT_EQ(validation.parts.size(), 4U);  // schedule, gemm, attention, other
}

TEST_F(ValidationTest, ShowsTheFirstPlanThatAFreshEngineDecidesOtherwise) {
  run.events.moments().front().plans.front().work.front().tokens -= 1;
  const MeasuredRun* const runs[] = {&run};
  const Validation validation = Validate(runs, run.events, GemmCost(milliseconds(7)));
  EXPECT_FALSE(validation.digest_equal);
  EXPECT_THAT(validation.difference, HasSubstr("after 0 equal plans"));
}

// A model that knows a step's time alone is blamed as a whole.
TEST_F(ValidationTest, KnowsHostAndDeviceAloneOfAModelWithoutParts) {
  const MeasuredRun* const runs[] = {&run};
  RecordedRun simulated;
  Simulate(milliseconds(13), simulated);
  const sim::ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(13)}, 1);
  const Validation validation = Validate(runs, simulated, cost);
  EXPECT_TRUE(validation.parts.empty());
  EXPECT_THAT(Share(Metric(validation, "mean_tpot_ms"), "device"), DoubleNear(3, 1e-9));
}

TEST_F(ValidationTest, IsTheSameAsJson) {
  const MeasuredRun* const runs[] = {&run};
  const auto json =
      nlohmann::json::parse(ValidationJson(Validate(runs, run.events, GemmCost(milliseconds(7)))));
  EXPECT_EQ(json["digest_equal"], true);
  const auto& metric = json["metrics"]["mean_e2el_ms"];
  EXPECT_EQ(metric["predicted"], metric["measured"]);
  EXPECT_EQ(metric["error_percent"], 0.0);
  EXPECT_TRUE(metric["repeat_noise_percent"].is_null());
  EXPECT_EQ(metric["attribution"]["gemm"], 0.0);
}

TEST_F(ValidationTest, IsAPageThatNeedsNothingElse) {
  run.config.name = "<three>";
  const MeasuredRun* const runs[] = {&run};
  const std::string page = ValidationHtml(Validate(runs, run.events, GemmCost(milliseconds(7))));
  EXPECT_THAT(page, HasSubstr("&lt;three&gt;"));
  EXPECT_EQ(page.find("<three>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

class StepTimesFileTest : public ::testing::Test {
 protected:
  static constexpr const char* kHeader =
      "step,planned_s,started_s,finished_s,told_s,schedule_ms,build_ms,gemm_ms,attention_ms,"
      "communication_ms,other_ms,sampling_ms,delivery_ms\n";
  std::vector<StepTimes> Read(const std::string& text) {
    const std::filesystem::path file =
        std::filesystem::path(::testing::TempDir()) / testing::UniqueName("step_times");
    std::ofstream(file) << text;
    std::vector<StepTimes> steps = ReadStepTimes(file);
    std::filesystem::remove(file);
    return steps;
  }
  std::string Refusal(const std::string& text) {
    try {
      Read(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(StepTimesFileTest, IsReadToTheNanosecond) {
  const std::vector<StepTimes> steps =
      Read(std::string(kHeader) +
           "1,0.000000001,1.5,2.5,3.000000007,0.000001,0,1000,0,0,0,0,500.000007\n");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(Nanoseconds(steps[0].planned), 1);
  EXPECT_EQ(Nanoseconds(steps[0].told), 3'000'000'007);
  EXPECT_EQ(steps[0].parts[StepPart::kSchedule].count(), 1);
  EXPECT_EQ(steps[0].parts[StepPart::kDelivery].count(), 500'000'007);
}

TEST_F(StepTimesFileTest, IsRefusedNamingLineAndColumn) {
  const std::string header = kHeader;
  EXPECT_THAT(Refusal("step\n"), HasSubstr(":1: header: found 'step'; allowed: step,planned_s,"));
  EXPECT_THAT(Refusal(header + "1,2,3\n"), HasSubstr(":2: row: has 3 fields; allowed: 13"));
  EXPECT_THAT(Refusal(header + "2,0,0,0,0,0,0,0,0,0,0,0,0\n"),
              HasSubstr(":2: step: found '2'; allowed: 1, as steps are in order"));
  for (const char* word : {"x", "nan", "1e30"}) {
    EXPECT_THAT(Refusal(header + "1,0,0,0,0,0,0," + word + ",0,0,0,0,0\n"),
                HasSubstr(std::string(":2: gemm_ms: found '") + word + "'; allowed: a time"));
  }
}

}  // namespace
}  // namespace twin::run
