// A vocabulary for tests of policies: given this state, expect this batch.
//
//   Scene scene(std::make_unique<MyPolicy>(config), {.block_size = 4, .blocks = 16});
//   scene.Given({.running = {{.prompt = 6}}, .waiting = {{.prompt = 600}}});
//   EXPECT_EQ(scene.NextBatch(), Batch({Decode('A'), Prefill('B', 512)}));
//
// Requests are called A, B, C, ... in the order in which they arrive. A scene drives the real
// engine, which checks every plan against the invariants, and needs no test framework. It does not
// speculate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sched/engine.h"
#include "sched/testing/vocabulary.h"

namespace twin::testing {

struct SceneOptions {
  std::int32_t block_size = 16;
  std::int32_t blocks = 1000;
  std::int32_t host_blocks = 0;
  Duration step = std::chrono::milliseconds(1);  // how long each step takes
  // If set, how long a step takes instead.
  std::function<Duration(const StepPlan&)> step_time = {};
};

// Time begins at zero, and passes only in NextBatch, Given and WaitUntil. Each step begins when it
// is planned and the one before has ended.
class Scene {
 public:
  explicit Scene(std::unique_ptr<Policy> policy, SceneOptions options = {})
      : options_(std::move(options)),
        config_{.kv = {.block_size = options_.block_size,
                       .blocks = options_.blocks,
                       .host_blocks = options_.host_blocks,
                       .release_order = policy->traits().release_order}},
        engine_(config_, std::move(policy)) {}

  // May be called again later; the names go on. Throws std::logic_error if the policy does not
  // bring all of `running` to their first token before one of them ends.
  void Given(const SceneState& state) {
    const std::size_t first = requests_.size();
    for (const SceneRequest& request : state.running) Expect(request);
    const std::size_t end = requests_.size();
    Deliver();
    const auto waits_for_first_token = [](const Progress& r) { return r.emitted == 0; };
    while (std::any_of(requests_.begin() + static_cast<std::ptrdiff_t>(first),
                       requests_.begin() + static_cast<std::ptrdiff_t>(end),
                       waits_for_first_token)) {
      if (BatchNow().empty() && !Advance()) throw std::logic_error("a running request waits");
    }
    for (std::size_t i = first; i < end; ++i) {
      if (requests_[i].ended) throw std::logic_error("a running request has ended");
    }
    for (const SceneRequest& request : state.waiting) Expect(request);
    Deliver();
  }

  // Asks the policy for a step now; empty if it plans nothing.
  Batch BatchNow() {
    const StepPlan* const plan = engine_.PlanStep(now_);
    if (plan == nullptr) return {};
    const TimePoint begins = steps_.empty() ? now_ : std::max(now_, steps_.back().ends);
    const Duration took = options_.step_time ? options_.step_time(*plan) : options_.step;
    steps_.push_back({plan, begins, begins + took});
    plan_ = *plan;
    Batch batch;
    for (const WorkItem& item : plan->work) {
      batch.items.push_back({Name(item.request), item.phase, item.tokens});
    }
    return batch;
  }

  // Lets time pass until the policy plans a step with work. Empty if there will be none.
  Batch NextBatch() {
    for (;;) {
      if (Batch batch = BatchNow(); !batch.empty()) return batch;
      if (!Advance()) return {};
    }
  }

  // Lets time pass without asking the policy for steps.
  void WaitUntil(TimePoint time) {
    while (NextEvent() <= time && Advance()) continue;
    now_ = std::max(now_, time);
  }

  // The client leaves. REQUIRES: the request is unfinished.
  void Cancel(char request) {
    Of(request).ended = true;
    engine_.Handle(RequestCancelled{Id(request)});
  }

  // The next token of the request ends it.
  void StopEarly(char request) { Of(request).stops = true; }

  [[nodiscard]] TimePoint now() const { return now_; }
  // The latest plan: who was preempted, rejected, ...; and when its step ends.
  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  [[nodiscard]] TimePoint step_ends() const { return steps_.empty() ? now_ : steps_.back().ends; }
  [[nodiscard]] const Engine& engine() const { return engine_; }

  static char Name(RequestId id) { return static_cast<char>('A' + Index(id)); }
  static RequestId Id(char request) { return RequestId{static_cast<std::uint32_t>(request - 'A')}; }

 private:
  struct Progress {
    SceneRequest asked;
    TimePoint arrival;
    std::int32_t emitted = 0;
    bool stops = false;
    bool ended = false;
  };
  struct Flight {
    const StepPlan* plan;
    TimePoint begins;
    TimePoint ends;
  };

  [[nodiscard]] Progress& Of(char request) { return requests_.at(Index(Id(request))); }

  void Expect(const SceneRequest& request) {
    requests_.push_back({request, now_ + request.after});
    if (requests_.size() > 1 && requests_.back().arrival < requests_.end()[-2].arrival) {
      throw std::logic_error("requests arrive in the order of their names");
    }
  }

  [[nodiscard]] TimePoint NextEvent() const {
    const TimePoint arrival =
        arrived_ < requests_.size() ? requests_[arrived_].arrival : kTimeNever;
    const TimePoint end = steps_.empty() ? kTimeNever : steps_.front().ends;
    return std::min({arrival, end, engine_.wake_at()});
  }

  // Moves on to the next event and reports all events of that time; false if there is none.
  bool Advance() {
    const TimePoint next = NextEvent();
    if (next == kTimeNever) return false;
    now_ = std::max(now_, next);
    bool woke = true;
    while (!steps_.empty() && steps_.front().ends <= now_) {
      Finish(steps_.front());
      steps_.pop_front();
      woke = false;
    }
    if (Deliver()) woke = false;
    if (woke) engine_.Handle(WakeUp{});
    return true;
  }

  void Finish(const Flight& flight) {
    std::vector<ItemOutcome> outcomes;
    for (const WorkItem& item : flight.plan->work) {
      Progress& request = requests_[Index(item.request)];
      if (!item.emits || request.ended) continue;
      ++request.emitted;
      request.ended = request.stops || request.emitted == request.asked.output;
      const FinishReason why = request.stops ? FinishReason::kStop : FinishReason::kLength;
      if (request.ended) outcomes.push_back({item.request, 1, why});
    }
    engine_.Handle(StepFinished{flight.plan->id, flight.begins, outcomes, {}});
  }

  // Reports who has arrived by now; false if nobody has.
  bool Deliver() {
    const std::size_t before = arrived_;
    for (; arrived_ < requests_.size() && requests_[arrived_].arrival <= now_; ++arrived_) {
      const Progress& request = requests_[arrived_];
      engine_.Handle(RequestArrived{{.id = RequestId{static_cast<std::uint32_t>(arrived_)},
                                     .arrival = request.arrival,
                                     .prompt_tokens = request.asked.prompt,
                                     .max_output_tokens = request.asked.output,
                                     .priority = request.asked.priority,
                                     .tenant = request.asked.tenant,
                                     .predicted_output_tokens = request.asked.predicted}});
    }
    return arrived_ > before;
  }

  SceneOptions options_;
  EngineConfig config_;
  Engine engine_;
  std::vector<Progress> requests_;
  std::size_t arrived_ = 0;  // of requests_
  std::deque<Flight> steps_;
  StepPlan plan_;
  TimePoint now_ = kTimeZero;
};

}  // namespace twin::testing
