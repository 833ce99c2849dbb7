#include "run/record/retiming.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "core/input_error.h"

namespace twin {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint At(std::int64_t ms) { return kTimeZero + milliseconds(ms); }

StepTimes Step(std::int64_t planned, std::int64_t started, std::int64_t gemm,
               std::int64_t attention, std::int64_t told, std::int64_t schedule) {
  StepTimes times{.planned = At(planned),
                  .started = At(started),
                  .finished = At(started + gemm + attention),
                  .told = At(told),
                  .parts = {}};
  times.parts[StepPart::kSchedule] = milliseconds(schedule);
  times.parts[StepPart::kGemm] = milliseconds(gemm);
  times.parts[StepPart::kAttention] = milliseconds(attention);
  times.parts[StepPart::kDelivery] = times.told - times.finished;
  return times;
}

StepParts Modelled(std::int64_t schedule, std::int64_t gemm, std::int64_t attention,
                   std::int64_t delivery) {
  StepParts parts;
  parts[StepPart::kSchedule] = milliseconds(schedule);
  parts[StepPart::kGemm] = milliseconds(gemm);
  parts[StepPart::kAttention] = milliseconds(attention);
  parts[StepPart::kDelivery] = milliseconds(delivery);
  return parts;
}

constexpr std::uint32_t Bit(StepPart part) { return 1U << static_cast<unsigned>(part); }

// A arrives at 0, is told at 2 and takes two steps; B arrives at 20, is told at 21 with the end of
// A, and takes one.
//   at 2: A, step 1 (3 to 12)    at 13: step 2 (14 to 20)    at 21: B, step 3 (22 to 27)    at 28
class TwoRequests : public ::testing::Test, private RunObserver {
 protected:
  TwoRequests() {
    Tell(2, {Arrived(0, 0)}, 1);
    Tell(13, {Finished(1, 3)}, 2);
    Tell(21, {Finished(2, 14), Arrived(1, 20)}, 3);
    Tell(28, {Finished(3, 22)}, 0);
  }

  // The moments of a variant, in milliseconds.
  [[nodiscard]] std::vector<double> Moments(const ModelledTimes& variant,
                                            ArrivalRule rule = ArrivalRule::kByClock) const {
    std::vector<double> moments;
    for (const TimePoint time : Retiming(run, measured, modelled, rule).Times(variant).moments) {
      moments.push_back(Milliseconds(time - kTimeZero));
    }
    return moments;
  }

  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (const auto* finished = std::get_if<StepFinished>(&event)) {
        told_starts.push_back(finished->started);
      } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
        told_arrivals.push_back(arrived->request.arrival);
      }
    }
  }
  void OnPlan(TimePoint now, const StepPlan& /*plan*/) override { told_plans.push_back(now); }

  static RequestArrived Arrived(std::uint32_t id, std::int64_t arrival) {
    return {
        {.id = RequestId{id}, .arrival = At(arrival), .prompt_tokens = 1, .max_output_tokens = 1}};
  }
  static StepFinished Finished(std::uint64_t step, std::int64_t started) {
    return {StepId{step}, At(started), {}, {}};
  }
  void Tell(std::int64_t now, std::vector<Event> events, std::uint64_t plan) {
    run.OnInstant({At(now), events});
    if (plan == 0) return;
    StepPlan step;
    step.id = StepId{plan};
    run.OnPlan(At(now), step);
  }

  RecordedRun run;
  std::vector<StepTimes> measured = {Step(2, 3, 6, 3, 13, 1), Step(13, 14, 4, 2, 21, 1),
                                     Step(21, 22, 5, 0, 28, 1)};
  std::vector<StepParts> modelled = {Modelled(0, 3, 3, 0), Modelled(0, 2, 2, 0),
                                     Modelled(0, 5, 0, 0)};
  RunObserver* const self = this;
  std::vector<TimePoint> told_starts;
  std::vector<TimePoint> told_arrivals;
  std::vector<TimePoint> told_plans;
};

TEST_F(TwoRequests, AreAsRecordedWhereNothingIsModelled) {
  EXPECT_EQ(Moments({}), (std::vector<double>{2, 13, 21, 28}));
}

TEST_F(TwoRequests, EndEarlierWhereGemmsTakeLess) {
  // Step 1 ends at 9 and is told at 10; step 2 at 15 and 16; B is told at 21 as before.
  EXPECT_EQ(Moments({.parts = Bit(StepPart::kGemm)}), (std::vector<double>{2, 10, 21, 28}));
}

TEST_F(TwoRequests, SeeClosedLoopsReturnAsLongBehindTheAnswer) {
  // B asks 7 ms behind the moment at 13, which is at 10 now; it is told 1 ms later.
  EXPECT_EQ(Moments({.parts = Bit(StepPart::kGemm)}, ArrivalRule::kInReturn),
            (std::vector<double>{2, 10, 18, 25}));
}

TEST_F(TwoRequests, AreToldAtOnceWhereArrivalsAreModelled) {
  // A at 0, so all of it is 2 ms earlier; B as soon as step 2 ends is too early: at 20.
  EXPECT_EQ(Moments({.arrivals = true}), (std::vector<double>{0, 11, 20, 27}));
}

TEST_F(TwoRequests, TakeWhatTheModelSaysWhereAllIsModelled) {
  const std::uint32_t all = (1U << kStepPartCount) - 1;
  EXPECT_EQ(Moments({.parts = all, .arrivals = true}), (std::vector<double>{0, 6, 20, 25}));
}

TEST_F(TwoRequests, AreToldToObserversAtTheirNewTimes) {
  const Retiming retiming(run, measured, modelled, ArrivalRule::kInReturn);
  retiming.NotifyObservers(retiming.Times({.parts = Bit(StepPart::kGemm)}), {&self, 1});
  EXPECT_EQ(told_plans, (std::vector<TimePoint>{At(2), At(10), At(18)}));
  EXPECT_EQ(told_starts, (std::vector<TimePoint>{At(3), At(11), At(19)}));
  EXPECT_EQ(told_arrivals, (std::vector<TimePoint>{At(0), At(17)}));
}

TEST_F(TwoRequests, AreRefusedWithTimesThatAreNotTheirs) {
  measured[1].told = At(22);
  EXPECT_THROW(Retiming(run, measured, modelled, ArrivalRule::kByClock), InputError);
}

TEST_F(TwoRequests, AreRefusedWithPartsThatDoNotSumUp) {
  measured[0].parts[StepPart::kGemm] += milliseconds(1);
  EXPECT_THROW(Retiming(run, measured, modelled, ArrivalRule::kByClock), InputError);
}

TEST_F(TwoRequests, AreRefusedWhereAStepIsMissing) {
  measured.pop_back();
  modelled.pop_back();
  EXPECT_THROW(Retiming(run, measured, modelled, ArrivalRule::kByClock), InputError);
}

// Two steps planned at once: the second waits for the first, and its schedule hides meanwhile.
// A on replica 0: told at 2, computed from 3 to 12, told at 13. B on replica 1: told at 4, computed
// from 5 to 9, told at 10. With half of the GEMMs A ends at 9 and B, which waits for nobody, at 7.
TEST(RetimingTest, StepsOfReplicasDoNotWaitForEachOther) {
  RecordedRun run;
  const auto arrived = [](std::uint32_t id, std::int64_t arrival) {
    return RequestArrived{
        {.id = RequestId{id}, .arrival = At(arrival), .prompt_tokens = 1, .max_output_tokens = 1}};
  };
  const auto finished = [](std::int64_t started, std::int32_t replica) {
    return StepFinished{.step = StepId{1},
                        .started = At(started),
                        .outcomes = {},
                        .filled = {},
                        .replica = replica};
  };
  StepPlan plan;
  plan.id = StepId{1};
  const std::vector<Event> events = {arrived(0, 2), arrived(1, 4), finished(5, 1), finished(3, 0)};
  run.OnInstant({At(2), std::span(events).subspan(0, 1)});
  run.OnPlan(At(2), plan);
  run.OnInstant({At(4), std::span(events).subspan(1, 1)});
  plan.replica = 1;
  run.OnPlan(At(4), plan);
  run.OnInstant({At(10), std::span(events).subspan(2, 1)});
  run.OnInstant({At(13), std::span(events).subspan(3, 1)});
  const std::vector<StepTimes> measured = {Step(2, 3, 6, 3, 13, 1), Step(4, 5, 4, 0, 10, 1)};
  const std::vector<StepParts> modelled = {Modelled(0, 3, 3, 0), Modelled(0, 2, 0, 0)};
  const Retiming retiming(run, measured, modelled, ArrivalRule::kByClock);
  EXPECT_EQ(retiming.Times({}).moments, (std::vector<TimePoint>{At(2), At(4), At(10), At(13)}));
  EXPECT_EQ(retiming.Times({.parts = Bit(StepPart::kGemm)}).moments,
            (std::vector<TimePoint>{At(2), At(4), At(8), At(10)}));
}

TEST(RetimingTest, LetsAModelledScheduleHideBehindTheStepBefore) {
  RecordedRun run;
  const std::vector<Event> arrival = {RequestArrived{
      {.id = RequestId{0}, .arrival = At(0), .prompt_tokens = 1, .max_output_tokens = 2}}};
  run.OnInstant({At(0), arrival});
  for (std::uint64_t i = 1; i <= 2; ++i) {
    StepPlan plan;
    plan.id = StepId{i};
    run.OnPlan(At(0), plan);
  }
  const std::vector<Event> first = {StepFinished{StepId{1}, At(1), {}, {}}};
  run.OnInstant({At(11), first});
  const std::vector<Event> second = {StepFinished{StepId{2}, At(11), {}, {}}};
  run.OnInstant({At(21), second});
  const std::vector<StepTimes> measured = {Step(0, 1, 10, 0, 11, 1), Step(0, 11, 10, 0, 21, 0)};
  const std::vector<StepParts> modelled = {Modelled(4, 10, 0, 0), Modelled(4, 10, 0, 0)};
  const Retiming retiming(run, measured, modelled, ArrivalRule::kByClock);
  EXPECT_EQ(retiming.Times({.parts = Bit(StepPart::kSchedule)}).started,
            (std::vector<TimePoint>{At(4), At(14)}));
}

// Two requests arrive at 0, and step 1 takes from 1 to 11. The client of the second one gives up.
class GivingUp : public ::testing::Test {
 protected:
  GivingUp() {
    Tell(0, {Arrived(0), Arrived(1)});
    run.OnPlan(At(0), Plan(1));
    measured.push_back(Step(0, 1, 10, 0, 11, 1));
  }

  static RequestArrived Arrived(std::uint32_t id) {
    return {{.id = RequestId{id}, .arrival = At(0), .prompt_tokens = 1, .max_output_tokens = 1}};
  }
  static StepPlan Plan(std::uint64_t id) {
    StepPlan plan;
    plan.id = StepId{id};
    return plan;
  }
  void Tell(std::int64_t now, const std::vector<Event>& events) {
    run.OnInstant({At(now), events});
  }
  // The moments if every GEMM takes `gemm` ms.
  [[nodiscard]] std::vector<TimePoint> MomentsOf(std::int64_t gemm) const {
    const std::vector<StepParts> modelled(measured.size(), Modelled(1, gemm, 0, 0));
    const Retiming retiming(run, measured, modelled, ArrivalRule::kByClock);
    EXPECT_EQ(retiming.Times({}).moments.back(), run.moments().back().now);
    return retiming.Times({.parts = Bit(StepPart::kGemm)}).moments;
  }

  const Event left = RequestCancelled{RequestId{1}};
  const Event ended = StepFinished{StepId{1}, At(1), {}, {}};
  RecordedRun run;
  std::vector<StepTimes> measured;
};

TEST_F(GivingUp, HoldsUpNoStep) {
  Tell(8, {left});
  Tell(11, {ended});
  EXPECT_EQ(MomentsOf(10), (std::vector<TimePoint>{At(0), At(8), At(11)}));
  EXPECT_EQ(MomentsOf(20), (std::vector<TimePoint>{At(0), At(8), At(21)}));
  EXPECT_EQ(MomentsOf(5), (std::vector<TimePoint>{At(0), At(6), At(6)}));
}

TEST_F(GivingUp, HoldsUpNoStepThatEndsAtTheSameMoment) {
  Tell(11, {ended, left});
  EXPECT_EQ(MomentsOf(5), (std::vector<TimePoint>{At(0), At(6)}));
}

// Step 2 can begin because the request has left.
TEST_F(GivingUp, StaysAsFarBehindTheMomentBeforeWhereAStepFollows) {
  Tell(11, {ended});
  Tell(15, {left});
  run.OnPlan(At(15), Plan(2));
  Tell(26, {StepFinished{StepId{2}, At(16), {}, {}}});
  measured.push_back(Step(15, 16, 10, 0, 26, 1));
  EXPECT_EQ(MomentsOf(5), (std::vector<TimePoint>{At(0), At(6), At(10), At(16)}));
}

// One step of 10 ms for a request that is sent at 0; 3 ms there and 2 ms back.
TEST(RetimingTest, AModelledBoundaryDelaysTheArrivalAndTheTokens) {
  RecordedRun run;
  const std::vector<Event> arrival = {RequestArrived{
      {.id = RequestId{0}, .arrival = At(0), .prompt_tokens = 1, .max_output_tokens = 1}}};
  run.OnInstant({At(0), arrival});
  StepPlan plan;
  plan.id = StepId{1};
  run.OnPlan(At(0), plan);
  const std::vector<Event> end = {StepFinished{StepId{1}, At(1), {}, {}}};
  run.OnInstant({At(11), end});
  const std::vector<StepTimes> measured = {Step(0, 1, 10, 0, 11, 1)};
  const std::vector<StepParts> modelled = {Modelled(1, 10, 0, 0)};
  const std::vector<ModelledWay> ways = {{milliseconds(3), milliseconds(2)}};
  const Retiming retiming(run, measured, modelled, ArrivalRule::kByClock, ways);
  const RunTimes times = retiming.Times({.boundary = true});
  EXPECT_EQ(times.moments, (std::vector<TimePoint>{At(3), At(14)}));
  EXPECT_EQ(retiming.Times({}).moments, (std::vector<TimePoint>{At(0), At(11)}));
  RecordedRun retimed;
  RunObserver* const observers[] = {&retimed};
  retiming.NotifyObservers(times, observers);
  const auto& arrived = std::get<RequestArrived>(retimed.moments().front().events.front());
  EXPECT_EQ(arrived.request.arrival, At(0));
  EXPECT_EQ(arrived.response_delay, milliseconds(2));
}

}  // namespace
}  // namespace twin
