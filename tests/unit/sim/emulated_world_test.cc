// The emulated world: what the simulation says, at the time at which it says it.
#include "sim/world/emulated_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sim/cost/constant_cost.h"
#include "tests/support/listed_source.h"
#include "tests/support/scripted_run.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;
using testing::Asked;
using testing::At;
using ::testing::ElementsAre;
using testing::ListedSource;
using ::testing::Pair;
using testing::R;

const ConstantCost kTenMilliseconds({.host_time = {}, .step_time = milliseconds(10)}, 1);

// A clock that jumps to the end of each wait, or to what a test does before that.
class ScriptedClock final : public WallClock {
 public:
  [[nodiscard]] Duration Elapsed() const override { return now_; }
  void WaitUntil(Duration deadline, std::unique_lock<std::mutex>& lock,
                 std::condition_variable& /*changed*/) override {
    if (!script_.empty() && script_.front().first <= deadline) {
      auto [time, act] = std::move(script_.front());
      script_.pop_front();
      now_ = std::max(now_, time);
      lock.unlock();
      act();
      lock.lock();
      return;
    }
    ASSERT_NE(deadline, Duration::max()) << "waits for ever";
    now_ = std::max(now_, deadline) + std::exchange(oversleeps_, Duration{0});
  }

  // In order of time.
  void Do(Duration time, std::function<void()> act) { script_.emplace_back(time, std::move(act)); }
  // The next wait takes so much longer.
  void Oversleep(Duration time) { oversleeps_ = time; }

 private:
  Duration now_{0};
  Duration oversleeps_{0};
  std::deque<std::pair<Duration, std::function<void()>>> script_;
};

// Requests that come while the run goes on, until somebody closes the source.
class OpenSource final : public ArrivalSource {
 public:
  const TracedRequest* Peek() override { return queue_.empty() ? nullptr : &queue_.front(); }
  void Take() override { queue_.pop_front(); }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool open() const override { return open_; }

  void Push(TracedRequest request) { queue_.push_back(std::move(request)); }
  void Close() { open_ = false; }

 private:
  std::deque<TracedRequest> queue_;
  bool open_ = true;
};

VllmV1Config Policy() {
  VllmV1Config config;
  config.max_num_batched_tokens = 8;
  config.max_num_seqs = 4;
  config.max_model_len = 4096;
  return config;
}

// A run by a scripted clock.
class EmulatedRun final : public World {
 public:
  explicit EmulatedRun(ArrivalSource& source, double speed = 1)
      : world(source, kTenMilliseconds, {}, clock, speed) {}

  void Serve() {
    const PolicyConfig policy = Policy();
    KvPoolConfig kv{.block_size = 4, .blocks = 1000};
    kv.release_order = TraitsOf(policy).release_order;
    Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0}, MakePolicy(policy, kv));
    twin::Serve(engine, *this);
    if (!world.stopped_early()) engine.CheckDrained();
  }

  Instant Advance(TimePoint wake_at) override {
    const Instant instant = world.Advance(wake_at);
    std::string events;
    for (const Event& event : instant.events) events += "TSCAW"[event.index()];
    if (events.empty()) return instant;
    seen.emplace_back(instant.now.time_since_epoch(), events);
    told.emplace_back(clock.Elapsed(), events);
    lateness.push_back(world.lateness());
    return instant;
  }
  void Launch(const StepPlan& plan) override { world.Launch(plan); }

  ScriptedClock clock;
  EmulatedWorld world;
  std::vector<std::pair<Duration, std::string>> seen;  // times that the engine sees, and events
  std::vector<std::pair<Duration, std::string>> told;  // when it was told
  std::vector<Duration> lateness;
};

TEST(EmulatedWorldTest, TellsEachInstantAtItsTime) {
  ListedSource source({Asked(At(5), 4, 2)});
  EmulatedRun run(source);
  run.Serve();
  EXPECT_THAT(run.seen, ElementsAre(Pair(milliseconds(5), "A"), Pair(milliseconds(15), "S"),
                                    Pair(milliseconds(25), "S")));
  EXPECT_EQ(run.told, run.seen);
}

TEST(EmulatedWorldTest, RunsFasterThanTimeIfAsked) {
  ListedSource source({Asked(At(5), 4, 2)});
  EmulatedRun run(source, 10);
  run.Serve();
  EXPECT_THAT(run.seen, ElementsAre(Pair(milliseconds(5), "A"), Pair(milliseconds(15), "S"),
                                    Pair(milliseconds(25), "S")));
  EXPECT_THAT(run.told, ElementsAre(Pair(std::chrono::microseconds(500), "A"),
                                    Pair(std::chrono::microseconds(1500), "S"),
                                    Pair(std::chrono::microseconds(2500), "S")));
}

// After 23 ms that somebody else took, three instants are late, one less than the other. None is
// skipped, and those behind them come at their time.
TEST(EmulatedWorldTest, CatchesUpWithoutDrift) {
  ListedSource source({Asked(At(5), 4, 4)});
  EmulatedRun run(source);
  run.clock.Oversleep(milliseconds(23));
  run.Serve();
  EXPECT_THAT(run.seen, ElementsAre(Pair(milliseconds(5), "A"), Pair(milliseconds(15), "S"),
                                    Pair(milliseconds(25), "S"), Pair(milliseconds(35), "S"),
                                    Pair(milliseconds(45), "S")));
  EXPECT_THAT(run.lateness, ElementsAre(milliseconds(23), milliseconds(13), milliseconds(3),
                                        milliseconds(0), milliseconds(0)));
}

TEST(EmulatedWorldTest, WaitsForRequestsUntilTheSourceIsClosed) {
  OpenSource source;
  EmulatedRun run(source);
  const auto push = [&](double ms) {
    run.clock.Do(DurationFromSeconds(ms * 1e-3), [&, ms] {
      source.Push(Asked(At(ms), 4, 1));
      run.world.Wake();
    });
  };
  push(3);
  push(100);
  run.clock.Do(milliseconds(200), [&] {
    source.Close();
    run.world.Wake();
  });
  run.Serve();
  EXPECT_THAT(run.told, ElementsAre(Pair(milliseconds(3), "A"), Pair(milliseconds(13), "S"),
                                    Pair(milliseconds(100), "A"), Pair(milliseconds(110), "S")));
  EXPECT_EQ(run.clock.Elapsed(), milliseconds(200));
}

// The second request comes while the first one's step runs, and joins the next step.
TEST(EmulatedWorldTest, TakesRequestsWhileAStepRuns) {
  OpenSource source;
  EmulatedRun run(source);
  source.Push(Asked(At(0), 4, 2));
  run.clock.Do(milliseconds(4), [&] {
    source.Push(Asked(At(4), 4, 1));
    source.Close();
    run.world.Wake();
  });
  run.Serve();
  EXPECT_THAT(run.told, ElementsAre(Pair(milliseconds(0), "A"), Pair(milliseconds(4), "A"),
                                    Pair(milliseconds(10), "S"), Pair(milliseconds(20), "S")));
}

TEST(EmulatedWorldTest, CancelsAtOnceAndDropsTheStepInFlight) {
  ListedSource source({Asked(At(5), 4, 100)});
  EmulatedRun run(source);
  run.clock.Do(milliseconds(17), [&] { run.world.Cancel(R(0), false); });
  run.Serve();
  EXPECT_THAT(run.told, ElementsAre(Pair(milliseconds(5), "A"), Pair(milliseconds(15), "S"),
                                    Pair(milliseconds(17), "C"), Pair(milliseconds(25), "S")));
  EXPECT_THAT(source.done, ElementsAre(Pair(R(0), At(17))));
}

TEST(EmulatedWorldTest, CancelsARequestThatHasNotArrivedOnceItHas) {
  ListedSource source({Asked(At(5), 4, 100)});
  EmulatedRun run(source);
  run.clock.Do(milliseconds(2), [&] { run.world.Cancel(R(0), false); });
  run.Serve();
  EXPECT_THAT(run.seen,
              ElementsAre(Pair(milliseconds(5), "A"), Pair(milliseconds(5) + Duration{1}, "C"),
                          Pair(milliseconds(15), "S")));
}

TEST(EmulatedWorldTest, CancellingWhatHasEndedDoesNothing) {
  OpenSource source;
  EmulatedRun run(source);
  source.Push(Asked(At(0), 4, 1));
  run.clock.Do(milliseconds(50), [&] {
    run.world.Cancel(R(0), false);
    source.Close();
  });
  run.Serve();
  EXPECT_THAT(run.told, ElementsAre(Pair(milliseconds(0), "A"), Pair(milliseconds(10), "S")));
}

TEST(EmulatedWorldTest, StopsAtOnce) {
  ListedSource source({Asked(At(5), 4, 100)});
  EmulatedRun run(source);
  run.clock.Do(milliseconds(32), [&] { run.world.Stop(); });
  run.Serve();
  EXPECT_TRUE(run.world.stopped_early());
  EXPECT_EQ(run.clock.Elapsed(), milliseconds(32));
  EXPECT_EQ(run.told.back(), std::pair(Duration(milliseconds(25)), std::string("S")));
}

}  // namespace
}  // namespace twin::sim
