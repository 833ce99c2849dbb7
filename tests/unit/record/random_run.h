// A small server with a seeded random workload that tells observers a run and keeps its own truth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/random.h"
#include "tests/support/scripted_run.h"

namespace twin::testing {

// Every request with all its token times, in a form that shares nothing with the tracker.
struct TrueRequest {
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;  // when it will end
  TimePoint arrival;
  TimePoint scheduled = kTimeNever;
  std::vector<TimePoint> tokens;
  std::int32_t computed = 0;
  std::int32_t ever_computed = 0;
  bool completed = false;
  bool cancelled = false;
};

// First come, first served, a fixed number of slots, whole prompts; now and then the latest running
// request is preempted, or one is cancelled. Everyone who arrives ends.
class RandomRun {
 public:
  RandomRun(std::uint64_t seed, std::size_t requests, std::initializer_list<RunObserver*> observers)
      : random_(seed, "record tests"), script_(observers), truth_(requests) {
    TimePoint arrival = kTimeZero;
    for (TrueRequest& request : truth_) {
      arrival += Duration{random_.UniformInt(0, 40'000'000)};
      request.arrival = arrival;
      request.prompt_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 200));
      request.output_tokens = static_cast<std::int32_t>(random_.UniformInt(1, 30));
    }
  }

  void Play() {
    while (arrived_ < truth_.size() || !waiting_.empty() || !running_.empty()) {
      if (waiting_.empty() && running_.empty()) {
        now_ = truth_[arrived_].arrival;
        ArriveUntil(now_);
      }
      Step();
    }
    script_.Close();
  }

  [[nodiscard]] const std::vector<TrueRequest>& truth() const { return truth_; }
  [[nodiscard]] TimePoint end() const { return now_; }
  std::int64_t recomputed_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t preemptions = 0;

 private:
  static constexpr std::size_t kSlots = 8;

  void ArriveUntil(TimePoint time) {
    for (; arrived_ < truth_.size() && truth_[arrived_].arrival <= time; ++arrived_) {
      const auto id = R(static_cast<std::uint32_t>(arrived_));
      script_.Arrive(truth_[arrived_].arrival, id, truth_[arrived_].prompt_tokens);
      waiting_.push_back(id);
    }
  }

  TrueRequest& Of(RequestId id) { return truth_[Index(id)]; }

  void PlanItem(StepPlan& plan, RequestId id) {
    TrueRequest& request = Of(id);
    const bool decodes = request.computed > 0;
    const std::int32_t known =
        request.prompt_tokens + static_cast<std::int32_t>(request.tokens.size());
    plan.work.push_back(decodes ? Decode(id, request.computed) : Prefill(id, 0, known));
    if (request.scheduled == kTimeNever) request.scheduled = now_;
    for (std::int32_t i = request.computed; i < known; ++i) {
      ++computed_tokens;
      if (i < request.ever_computed) ++recomputed_tokens;
    }
    request.computed = known;
    request.ever_computed = std::max(request.ever_computed, known);
  }

  StepPlan MakePlan() {
    StepPlan plan;
    if (running_.size() > 1 && random_.UniformInt(0, 9) == 0) {
      const RequestId victim = running_.back();
      running_.pop_back();
      waiting_.insert(waiting_.begin(), victim);
      Of(victim).computed = 0;
      plan.preempted = {{victim, Preemption::How::kRecompute}};
      ++preemptions;
    }
    for (const RequestId id : running_) PlanItem(plan, id);
    while (plan.preempted.empty() && !waiting_.empty() && running_.size() < kSlots) {
      const RequestId id = waiting_.front();
      waiting_.erase(waiting_.begin());
      running_.push_back(id);
      plan.admitted.push_back(id);
      PlanItem(plan, id);
    }
    plan.running = static_cast<std::int32_t>(running_.size());
    return plan;
  }

  void Step() {
    const StepPlan plan = MakePlan();
    const StepId step = script_.Launch(now_, plan);
    // Few distinct durations, so that arrivals and gaps coincide now and then.
    const TimePoint end = now_ + Duration{random_.UniformInt(1, 5) * 10'000'000};
    if (!waiting_.empty() && random_.UniformInt(0, 19) == 0) CancelWaiting();
    ArriveUntil(end - Duration{1});
    now_ = end;
    FinishStep(step, plan);
    ArriveUntil(end);
  }

  void CancelWaiting() {
    script_.Cancel(now_, waiting_.back());
    Of(waiting_.back()).cancelled = true;
    Of(waiting_.back()).tokens.push_back(now_);  // only the end matters from here on
    waiting_.pop_back();
  }

  void FinishStep(StepId step, const StepPlan& plan) {
    std::vector<ItemOutcome> outcomes;
    for (const WorkItem& item : plan.work) {
      TrueRequest& request = Of(item.request);
      request.tokens.push_back(now_);
      if (static_cast<std::int32_t>(request.tokens.size()) < request.output_tokens) continue;
      request.completed = true;
      outcomes.push_back(Last(item.request));
      running_.erase(std::find(running_.begin(), running_.end(), item.request));
    }
    script_.Finish(now_, step, std::move(outcomes));
  }

  Random random_;
  ScriptedRun script_;
  std::vector<TrueRequest> truth_;
  std::size_t arrived_ = 0;
  std::vector<RequestId> waiting_;
  std::vector<RequestId> running_;
  TimePoint now_ = kTimeZero;
};

}  // namespace twin::testing
