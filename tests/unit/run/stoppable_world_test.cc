// A run that its caller ends early.
#include "run/stoppable_world.h"

#include <gtest/gtest.h>

namespace twin::run {
namespace {

// Something happens in every nanosecond, for so many instants.
class Ticking final : public World {
 public:
  explicit Ticking(int instants) : left_(instants) {}
  Instant Advance(TimePoint /*wake_at*/) override {
    if (left_ == 0) return {};
    --left_;
    return {now_ += Duration{1}, events_};
  }
  void Launch(const StepPlan& /*plan*/) override {}

 private:
  int left_;
  TimePoint now_ = kTimeZero;
  Event events_[1] = {WakeUp{}};
};

class StopOnRequest final : public RunControl {
 public:
  [[nodiscard]] bool StopRequested() const override { return stop; }
  bool stop = false;
};

int InstantsOf(World& world) {
  int instants = 0;
  while (!world.Advance(kTimeNever).events.empty()) ++instants;
  return instants;
}

TEST(StoppableWorldTest, StopsWithinAFewThousandInstantsOfARequest) {
  StopOnRequest control;
  Ticking ticking(100'000);
  StoppableWorld world(ticking, control, "test", 0);
  EXPECT_FALSE(world.Advance(kTimeNever).events.empty());
  control.stop = true;
  EXPECT_LT(InstantsOf(world), 5'000);
  EXPECT_TRUE(world.stopped_early());
}

TEST(StoppableWorldTest, AWorldThatComesToItsEndWasNotStopped) {
  StopOnRequest control;
  Ticking ticking(10);
  StoppableWorld world(ticking, control, "test", 0);
  control.stop = true;
  EXPECT_EQ(InstantsOf(world), 10);
  EXPECT_FALSE(world.stopped_early());
}

}  // namespace
}  // namespace twin::run
