#include "run/record/recording_world.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "run/record/recorded_run.h"
#include "run/record/replay_world.h"
#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::At;
using testing::Prefill;
using testing::R;

// One arrival at 5 ms, then nothing; notes what it is asked.
class OneArrivalWorld : public World {
 public:
  explicit OneArrivalWorld(std::vector<std::string>& notes) : notes_(notes) {}

  Instant Advance(TimePoint /*wake_at*/) override {
    notes_.push_back("advance");
    if (told_) return {At(9), {}};
    told_ = true;
    return {At(5), events_};
  }
  void Launch(const StepPlan& plan) override {
    notes_.push_back("launch " + std::to_string(Index(plan.id)));
  }
  [[nodiscard]] const Event* events() const { return events_.data(); }

 private:
  std::vector<std::string>& notes_;
  std::array<Event, 1> events_{RequestArrived{}};
  bool told_ = false;
};

class NotingObserver : public RunObserver {
 public:
  NotingObserver(std::string name, std::vector<std::string>& notes)
      : name_(std::move(name)), notes_(notes) {}
  void OnInstant(const Instant& instant) override {
    notes_.push_back(name_ + " instant " + std::to_string(Milliseconds(instant.now - kTimeZero)));
  }
  void OnPlan(TimePoint now, const StepPlan& plan) override {
    notes_.push_back(name_ + " plan " + std::to_string(Index(plan.id)) + " at " +
                     std::to_string(Milliseconds(now - kTimeZero)));
  }

 private:
  std::string name_;
  std::vector<std::string>& notes_;
};

TEST(RecordingWorldTest, ShowsEveryInstantAndPlanToAllObserversBeforeTheWorldActs) {
  std::vector<std::string> notes;
  OneArrivalWorld inner(notes);
  NotingObserver first("a", notes);
  NotingObserver second("b", notes);
  RecordingWorld world(inner, std::array<RunObserver*, 2>{&first, &second});
  const Instant instant = world.Advance(kTimeNever);
  EXPECT_EQ(instant.now, At(5));
  EXPECT_EQ(instant.events.data(), inner.events());
  StepPlan plan;
  plan.id = StepId{1};
  world.Launch(plan);
  const Instant last = world.Advance(kTimeNever);
  EXPECT_EQ(last.now, At(9));
  EXPECT_TRUE(last.events.empty());
  const std::vector<std::string> expected = {"advance",
                                             "a instant 5.000000",
                                             "b instant 5.000000",
                                             "a plan 1 at 5.000000",
                                             "b plan 1 at 5.000000",
                                             "launch 1",
                                             "advance"};
  EXPECT_EQ(notes, expected);
}

TEST(RecordedRunTest, OwnsCopiesOfEverything) {
  RecordedRun run;
  {
    std::vector<BlockKey> keys = {BlockKey{11}, BlockKey{12}};
    Request request;
    request.id = R(4);
    request.prompt_tokens = 32;
    request.prefix_keys = keys;
    std::vector<ItemOutcome> outcomes = {testing::Last(R(3))};
    std::vector<BlockFilled> filled = {{R(3), BlockKey{13}}};
    const std::vector<Event> events = {StepFinished{StepId{1}, At(1), outcomes, filled},
                                       RequestArrived{request}};
    run.OnInstant({At(2), events});
    StepPlan plan;
    plan.id = StepId{2};
    plan.work = {Prefill(R(4), 0, 32)};
    run.OnPlan(At(2), plan);
    keys.assign(2, BlockKey{0});
    outcomes.clear();
    filled.clear();
  }
  RecordedRunSource source(run);
  Instant instant;
  ASSERT_TRUE(source.NextInstant(instant));
  EXPECT_EQ(instant.now, At(2));
  ASSERT_EQ(instant.events.size(), 2u);
  const auto& finished = std::get<StepFinished>(instant.events[0]);
  ASSERT_EQ(finished.outcomes.size(), 1u);
  EXPECT_EQ(finished.outcomes[0], testing::Last(R(3)));
  ASSERT_EQ(finished.filled.size(), 1u);
  EXPECT_EQ(finished.filled[0].key, BlockKey{13});
  const auto& arrived = std::get<RequestArrived>(instant.events[1]);
  ASSERT_EQ(arrived.request.prefix_keys.size(), 2u);
  EXPECT_EQ(arrived.request.prefix_keys[1], BlockKey{12});
  const StepPlan* plan = source.NextPlan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->work[0].tokens, 32);
  EXPECT_EQ(source.NextPlan(), nullptr);
  EXPECT_FALSE(source.NextInstant(instant));
}

// A record of two instants with one plan each.
void RecordTwoSteps(RecordedRun& run) {
  testing::ScriptedRun script({&run});
  script.Arrive(At(0), R(0), 6);
  const StepId step = script.Launch(At(0), {Prefill(R(0), 0, 4, false)});
  script.Finish(At(10), step);
  script.Launch(At(10), {Prefill(R(0), 4, 2)});
}

TEST(ReplayWorldTest, TellsTheRecordAndFindsEqualPlans) {
  RecordedRun run;
  RecordTwoSteps(run);
  RecordedRunSource source(run);
  ReplayWorld world(source);
  for (const RecordedRun::Moment& moment : run.moments()) {
    const Instant instant = world.Advance(kTimeNever);
    EXPECT_EQ(instant.now, moment.now);
    EXPECT_EQ(instant.events.data(), moment.events.data());
    for (const StepPlan& plan : moment.plans) world.Launch(plan);
  }
  EXPECT_TRUE(world.Advance(kTimeNever).events.empty());
  EXPECT_EQ(world.equal_plans(), 2u);
  EXPECT_FALSE(world.difference().has_value());
}

TEST(ReplayWorldTest, StopsAtTheFirstDifferenceAndSaysWhatItIs) {
  RecordedRun run;
  RecordTwoSteps(run);
  RecordedRunSource source(run);
  ReplayWorld world(source);
  world.Advance(kTimeNever);
  StepPlan plan = run.moments()[0].plans[0];
  plan.work[0].tokens = 5;
  world.Launch(plan);
  world.Launch(plan);  // the engine's loop may go on for this instant
  EXPECT_TRUE(world.Advance(kTimeNever).events.empty());
  ASSERT_TRUE(world.difference().has_value());
  EXPECT_EQ(world.equal_plans(), 0u);
  EXPECT_EQ(world.difference()->text(),
            "first difference at 0 ns, in work[0]: recorded r0:P4 at 0, decided r0:P5 at 0\n"
            "  recorded it1: r0:P4 | free=0\n"
            "  decided  it1: r0:P5 | free=0");
}

TEST(ReplayWorldTest, FindsAPlanThatIsNotReplayResult) {
  RecordedRun run;
  RecordTwoSteps(run);
  RecordedRunSource source(run);
  ReplayWorld world(source);
  world.Advance(kTimeNever);
  EXPECT_TRUE(world.Advance(kTimeNever).events.empty());
  ASSERT_TRUE(world.difference().has_value());
  EXPECT_EQ(world.difference()->decided, "no plan");
}

TEST(ReplayWorldTest, FindsAPlanTooMany) {
  RecordedRun run;
  RecordTwoSteps(run);
  RecordedRunSource source(run);
  ReplayWorld world(source);
  world.Advance(kTimeNever);
  world.Launch(run.moments()[0].plans[0]);
  world.Launch(run.moments()[1].plans[0]);
  ASSERT_TRUE(world.difference().has_value());
  EXPECT_EQ(world.difference()->recorded, "no plan");
  EXPECT_EQ(world.equal_plans(), 1u);
}

}  // namespace
}  // namespace twin
