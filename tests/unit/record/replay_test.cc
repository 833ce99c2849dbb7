#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/random.h"
#include "run/record/metrics_collector.h"
#include "run/record/plan_digest.h"
#include "run/record/recorded_run.h"
#include "run/record/recording_world.h"
#include "run/record/replay_world.h"
#include "run/record/request_tracker.h"
#include "sched/engine.h"
#include "sched/policy/vllm_v1.h"
#include "sched/serve.h"
#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::R;

constexpr KvPoolConfig kCache{16, 24, 0, ReleaseOrder::kBack};

std::unique_ptr<Engine> MakeEngine(std::int32_t token_budget, bool asynchronous) {
  VllmV1Config policy;
  policy.release = VllmV1Release::k0_15_1;
  policy.max_num_batched_tokens = token_budget;
  policy.max_num_seqs = 8;
  policy.max_model_len = 300;
  policy.async_scheduling = asynchronous;
  EngineConfig config;
  config.kv = kCache;
  return std::make_unique<Engine>(config, std::make_unique<VllmV1Policy>(policy, kCache.blocks));
}

// Arrivals and step durations drawn from a seed; steps in flight run one after the other.
class DrawnWorld : public World {
 public:
  DrawnWorld(std::uint64_t seed, std::uint32_t requests)
      : random_(seed, "drawn"), lengths_(requests) {
    for (std::int32_t& length : lengths_) {
      length = static_cast<std::int32_t>(random_.UniformInt(1, 60));
    }
  }

  Instant Advance(TimePoint /*wake_at*/) override {
    events_.clear();
    outcomes_.clear();
    const bool steps = !in_flight_.empty();
    const bool arrivals = arrived_ < lengths_.size();
    if (!steps && !arrivals) return {now_, {}};
    if (steps && (!arrivals || ends_.front() <= next_arrival_)) {
      now_ = ends_.front();
      Finish();
    } else {
      now_ = std::max(now_, next_arrival_);
      Arrive();
    }
    return {now_, events_};
  }

  void Launch(const StepPlan& plan) override {
    const TimePoint begin = ends_.empty() ? now_ : ends_.back();
    begins_.push_back(begin);
    ends_.push_back(begin + Duration{random_.UniformInt(1'000'000, 30'000'000)});
    in_flight_.push_back(&plan);
  }

 private:
  void Arrive() {
    Request request;
    request.id = R(static_cast<std::uint32_t>(arrived_));
    request.arrival = now_;
    request.prompt_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 200));
    request.max_output_tokens = lengths_[arrived_];
    events_.push_back(RequestArrived{request});
    ++arrived_;
    next_arrival_ = now_ + Duration{random_.UniformInt(0, 60'000'000)};
  }

  void Finish() {
    const StepPlan& plan = *in_flight_.front();
    for (const WorkItem& item : plan.work) {
      if (!item.emits) continue;
      std::int32_t& left = lengths_[Index(item.request)];
      if (left == 0) continue;  // it ended while this step was in flight
      if (--left == 0) outcomes_.push_back(testing::Last(item.request));
    }
    events_.push_back(StepFinished{plan.id, begins_.front(), outcomes_, {}});
    in_flight_.pop_front();
    begins_.pop_front();
    ends_.pop_front();
  }

  Random random_;
  std::vector<std::int32_t> lengths_;  // output tokens still to come
  std::size_t arrived_ = 0;
  TimePoint next_arrival_ = kTimeZero;
  TimePoint now_ = kTimeZero;
  std::deque<const StepPlan*> in_flight_;
  std::deque<TimePoint> begins_;
  std::deque<TimePoint> ends_;
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
};

class ReplayTest : public ::testing::TestWithParam<bool> {
 protected:
  // Serves 80 requests with preemptions and keeps the record.
  void Record(std::uint64_t seed) {
    DrawnWorld world(seed, 80);
    RecordingWorld recording(world, std::array<RunObserver*, 3>{&run_, &digest_, &tracker_});
    const std::unique_ptr<Engine> engine = MakeEngine(64, GetParam());
    Serve(*engine, recording);
    engine->CheckDrained();
  }

  RecordedRun run_;
  PlanDigest digest_;
  MetricsCollector metrics_{MetricsConfig{}};
  RequestTracker tracker_{{kCache.blocks, Delivery::kPerStep, {}},
                          std::array<RunListener*, 1>{&metrics_}};
};

TEST_P(ReplayTest, AFreshEngineDecidesTheRecordedRunAgain) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    RecordedRun run;
    PlanDigest recorded;
    DrawnWorld world(seed, 80);
    RecordingWorld recording(world, std::array<RunObserver*, 2>{&run, &recorded});
    const std::unique_ptr<Engine> engine = MakeEngine(64, GetParam());
    Serve(*engine, recording);

    RecordedRunSource source(run);
    ReplayWorld replay(source);
    PlanDigest decided;
    RecordingWorld watched(replay, std::array<RunObserver*, 1>{&decided});
    const std::unique_ptr<Engine> fresh = MakeEngine(64, GetParam());
    Serve(*fresh, watched);
    fresh->CheckDrained();
    EXPECT_FALSE(replay.difference().has_value());
    EXPECT_EQ(replay.equal_plans(), recorded.plans());
    EXPECT_EQ(decided.text(), recorded.text());
    EXPECT_GT(recorded.plans(), 100u);
  }
}

TEST_P(ReplayTest, AnotherPolicyIsFoundOut) {
  Record(1);
  RecordedRunSource source(run_);
  ReplayWorld replay(source);
  const std::unique_ptr<Engine> other = MakeEngine(48, GetParam());
  Serve(*other, replay);
  ASSERT_TRUE(replay.difference().has_value());
  EXPECT_NE(replay.difference()->recorded, replay.difference()->decided);
}

TEST_P(ReplayTest, ADamagedRecordIsFoundOut) {
  Record(2);
  // The middle of the run, at an instant with a plan that computes something.
  for (std::size_t i = run_.moments().size() / 2;; ++i) {
    RecordedRun::Moment& moment = run_.moments()[i];
    if (moment.plans.empty() || moment.plans[0].work.empty()) continue;
    moment.plans[0].work[0].start += 1;
    RecordedRunSource source(run_);
    ReplayWorld replay(source);
    const std::unique_ptr<Engine> fresh = MakeEngine(64, GetParam());
    Serve(*fresh, replay);
    ASSERT_TRUE(replay.difference().has_value());
    EXPECT_EQ(replay.difference()->where.field, "work[0]");
    EXPECT_EQ(replay.difference()->now, moment.now);
    break;
  }
}

TEST_P(ReplayTest, TheTrackersCensusIsTheEngines) {
  class Census : public RunObserver {
   public:
    explicit Census(const RequestTracker& tracker) : tracker_(tracker) {}
    void OnInstant(const Instant& /*instant*/) override {}
    void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
      const Load expected{plan.waiting, plan.running, plan.swapped,
                          kCache.blocks - plan.free_blocks};
      EXPECT_EQ(tracker_.load(), expected) << Index(plan.id);
    }

   private:
    const RequestTracker& tracker_;
  };
  DrawnWorld world(5, 80);
  Census census(tracker_);
  RecordingWorld recording(world, std::array<RunObserver*, 2>{&tracker_, &census});
  const std::unique_ptr<Engine> engine = MakeEngine(64, GetParam());
  Serve(*engine, recording);
  const Summary summary = metrics_.Summarise();
  EXPECT_EQ(summary.Number("completed"), 80);
  EXPECT_GT(summary.Number("recomputes"), 0);
  // Tokens are conserved: computed = sum(P + O - 1) + recomputed, where nothing runs
  // beyond its end.
  if (!GetParam()) {
    EXPECT_EQ(summary.Number("computed_prefill_tokens") + summary.Number("computed_decode_tokens"),
              summary.Number("total_input_tokens") + summary.Number("total_output_tokens") - 80 +
                  summary.Number("recomputed_tokens"));
  }
}

INSTANTIATE_TEST_SUITE_P(Scheduling, ReplayTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& asynchronous) {
                           return asynchronous.param ? "Asynchronous" : "Synchronous";
                         });

}  // namespace
}  // namespace twin
