// That watching a run allocates nothing per step, by counting calls of the global operator new.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <utility>

#include "run/record/fairness_meter.h"
#include "run/record/metrics_collector.h"
#include "run/record/plan_digest.h"
#include "run/record/request_tracker.h"
#include "run/record/series.h"
#include "tests/support/scripted_run.h"

namespace {
std::int64_t allocations = 0;
}  // namespace

// Not inlined: GCC 12 would pair the library's new with free and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace twin {
namespace {

using testing::R;

// Ten requests arrive and are decoded for ever; every tenth step one ends and another arrives.
class EndlessRun {
 public:
  explicit EndlessRun(std::array<RunObserver*, 2> observers) : observers_(observers) {
    for (std::uint32_t i = 0; i < kRunning; ++i) Arrive(i);
    plan_.admitted.reserve(kRunning);
    Launch(true);
  }

  void Play(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) Step();
  }

 private:
  static constexpr std::uint32_t kRunning = 10;

  void Arrive(std::uint32_t slot) {
    Request request;
    request.id = R(next_request_++);
    request.arrival = now_;
    request.prompt_tokens = 4;
    request.tenant = slot % 2;
    running_[slot] = request.id;
    events_[1 + slot] = RequestArrived{request};
  }

  void Launch(bool first) {
    if (first) {
      for (RunObserver* observer : observers_) {
        observer->OnInstant({now_, std::span<const Event>(events_).subspan(1)});
      }
    }
    plan_.id = StepId{++steps_};
    plan_.work.clear();
    plan_.admitted.clear();
    for (const RequestId id : running_) {
      const bool fresh = Index(id) + (first ? kRunning : 1) >= next_request_ && fresh_;
      plan_.work.push_back(fresh ? testing::Prefill(id, 0, 4) : testing::Decode(id, 5));
      if (fresh) plan_.admitted.push_back(id);
    }
    fresh_ = false;
    plan_.totals = testing::TotalsOf(plan_);
    for (RunObserver* observer : observers_) observer->OnPlan(now_, plan_);
  }

  void Step() {
    const TimePoint begin = now_;
    // Most gaps differ, so that sketches leave their exact form.
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    now_ += Duration{static_cast<std::int64_t>(1'000'000 + (state_ >> 44))};
    const bool ends = steps_ % 10 == 0;
    const auto slot = static_cast<std::uint32_t>(steps_ / 10 % kRunning);
    outcome_[0] = testing::Last(running_[slot]);
    StepFinished finished{StepId{steps_}, begin, {}, {}};
    if (ends) finished.outcomes = outcome_;
    events_[0] = finished;
    if (ends) {
      Arrive(slot);
      std::swap(events_[1], events_[1 + slot]);
      fresh_ = true;
    }
    for (RunObserver* observer : observers_) {
      observer->OnInstant({now_, std::span<const Event>(events_).first(ends ? 2u : 1u)});
    }
    Launch(false);
  }

  std::array<RunObserver*, 2> observers_;
  std::array<RequestId, kRunning> running_{};
  std::array<Event, 1 + kRunning> events_;
  std::array<ItemOutcome, 1> outcome_{};
  StepPlan plan_;
  std::uint32_t next_request_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t state_ = 1;
  bool fresh_ = true;
  TimePoint now_ = kTimeZero;
};

TEST(AllocationTest, WatchingAllocatesNothingPerStepAfterWarmUp) {
  MetricsCollector metrics{MetricsConfig{}};
  FairnessMeter fairness{FairnessConfig{}};
  Series series{SeriesConfig{}};
  RequestTracker tracker({100, Delivery::kPerStep, {}},
                         std::array<RunListener*, 3>{&metrics, &fairness, &series});
  PlanDigest digest;
  EndlessRun run({&tracker, &digest});
  // Long enough for every sketch to have become buckets: a request ends in every tenth step.
  run.Play(10 * Sketch::kExactEntries + 100);
  const std::int64_t before = allocations;
  ASSERT_GT(before, 0);
  run.Play(10'000);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(metrics.Summarise().Number("completed"), 17'000);
}

}  // namespace
}  // namespace twin
