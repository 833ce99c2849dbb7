// Runs written by hand: reports instants and plans to observers, without an engine or a world.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "core/check.h"
#include "run/record/run_observer.h"

namespace twin::testing {

constexpr TimePoint At(double milliseconds) {
  return kTimeZero + DurationFromSeconds(milliseconds * 1e-3);
}

constexpr RequestId R(std::uint32_t number) { return RequestId{number}; }

inline WorkItem Prefill(RequestId id, std::int32_t start, std::int32_t tokens, bool emits = true) {
  return {id, start, tokens, 0, Phase::kPrefill, emits};
}

inline WorkItem Decode(RequestId id, std::int32_t start) {
  return {id, start, 1, 0, Phase::kDecode, true};
}

// The token of an item that ends its request.
inline ItemOutcome Last(RequestId id, std::int32_t tokens = 1) {
  return {id, tokens, FinishReason::kLength};
}

// The sums that step_plan.h defines.
inline StepTotals TotalsOf(const StepPlan& plan) {
  StepTotals totals;
  for (const WorkItem& item : plan.work) {
    const std::int64_t end = item.start + item.tokens;
    if (item.phase == Phase::kDecode) {
      ++totals.decode_items;
      totals.decode_context_tokens += end;
    } else {
      const std::int64_t n = item.tokens;
      totals.prefill_tokens += n;
      ++totals.prefill_items;
      totals.prefill_context_tokens += end;
      totals.prefill_attention_pairs += n * item.start + n * (n + 1) / 2;
    }
    if (item.emits) ++totals.emitting_items;
    if (item.padded_tokens > 0) totals.padding_tokens += item.padded_tokens - item.tokens;
  }
  totals.padding_tokens += static_cast<std::int64_t>(plan.padding_rows.size());
  return totals;
}

// Reports events and plans to its observers in the order of the calls. Events of equal time form
// one instant, which is reported when a plan or a later event follows, or by Close.
class ScriptedRun {
 public:
  ScriptedRun(std::initializer_list<RunObserver*> observers) : observers_(observers) {}
  ScriptedRun(const ScriptedRun&) = delete;
  ScriptedRun& operator=(const ScriptedRun&) = delete;
  ~ScriptedRun() { CHECK(events_.empty()); }

  void Arrive(TimePoint now, Request request) {
    request.arrival = now;
    Add(now, RequestArrived{request});
  }

  // A request without further properties.
  void Arrive(TimePoint now, RequestId id, std::int32_t prompt_tokens, std::uint32_t tenant = 0) {
    Request request;
    request.id = id;
    request.prompt_tokens = prompt_tokens;
    request.max_output_tokens = 1 << 20;
    request.tenant = tenant;
    Arrive(now, request);
  }

  void Cancel(TimePoint now, RequestId id, bool answered = false) {
    Add(now, RequestCancelled{id, answered});
  }
  void Wake(TimePoint now) { Add(now, WakeUp{}); }

  // Numbers the plan, adds up its totals, and launches it at `now`. An instant without an event of
  // the script becomes a WakeUp. The plan lives as long as the script.
  StepId Launch(TimePoint now, StepPlan plan) {
    if (now != now_ || (events_.empty() && !reported_)) Wake(now);
    Close();
    plan.id = StepId{++steps_};
    plan.totals = TotalsOf(plan);
    launched_at_.push_back(now);
    plans_.push_back(std::move(plan));
    for (RunObserver* observer : observers_) observer->OnPlan(now, plans_.back());
    return plans_.back().id;
  }

  StepId Launch(TimePoint now, std::vector<WorkItem> work) {
    StepPlan plan;
    plan.work = std::move(work);
    return Launch(now, std::move(plan));
  }

  // The step began at `started`, by default when it was launched.
  void Finish(TimePoint now, StepId step, std::vector<ItemOutcome> outcomes = {},
              TimePoint started = kTimeNever) {
    StepFinished finished;
    finished.step = step;
    finished.started =
        started == kTimeNever ? launched_at_[static_cast<std::size_t>(Index(step)) - 1] : started;
    Advance(now);
    finished.outcomes = outcomes_.emplace_back(std::move(outcomes));
    Add(now, finished);
  }

  // Reports the instant that is being collected.
  void Close() {
    if (events_.empty()) return;
    for (RunObserver* observer : observers_) observer->OnInstant({now_, events_});
    events_.clear();
    outcomes_.clear();
    reported_ = true;
  }

 private:
  void Advance(TimePoint now) {
    CHECK(now >= now_);
    if (now == now_ && !reported_) return;
    Close();
    now_ = now;
    reported_ = false;
  }

  void Add(TimePoint now, const Event& event) {
    Advance(now);
    events_.push_back(event);
  }

  std::vector<RunObserver*> observers_;
  TimePoint now_ = kTimeZero;
  bool reported_ = false;  // the instant at now_
  std::vector<Event> events_;
  std::deque<std::vector<ItemOutcome>> outcomes_;
  std::deque<StepPlan> plans_;
  std::vector<TimePoint> launched_at_;
  std::uint64_t steps_ = 0;
};

}  // namespace twin::testing
