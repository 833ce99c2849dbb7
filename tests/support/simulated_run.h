// A simulated run whose instants, launches and requests a test can examine.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sim/world/sim_world.h"
#include "tests/support/listed_source.h"

namespace twin::testing {

// Runs an engine in a SimWorld and keeps everything that happens.
class SimulatedRun final : public World, private RunListener {
 public:
  struct Reported {
    TimePoint now;
    // One letter each: T(ransfer finished), S(tep finished), C(ancelled), A(rrived), W(ake up).
    std::string events;
  };
  struct Launched {
    TimePoint planned;
    StepPlan plan;
    std::vector<sim::SimWorld::StageSpan> stages;
    TimePoint started = kTimeNever;   // as its StepFinished says
    TimePoint finished = kTimeNever;  // when it was reported
  };

  SimulatedRun(ArrivalSource& source, const sim::StepCost& cost, const PolicyConfig& policy,
               KvPoolConfig kv, const sim::SimWorldOptions& options = {})
      : world_(source, cost, options) {
    kv.release_order = TraitsOf(policy).release_order;
    Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0}, MakePolicy(policy, kv));
    RunListener* const listeners[] = {this};
    RequestTracker tracker({kv.blocks, engine.policy().traits().delivery, {}}, listeners);
    RunObserver* const observers[] = {&tracker};
    RecordingWorld recorded(*this, observers);
    Serve(engine, recorded);
    engine.CheckDrained();
    CHECK(tracker.live() == 0);
  }

  Instant Advance(TimePoint wake_at) override {
    const Instant instant = world_.Advance(wake_at);
    if (instant.events.empty()) return instant;
    Reported& reported = instants.emplace_back(Reported{instant.now, ""});
    for (const Event& event : instant.events) {
      static_assert(std::variant_size_v<Event> == 5);
      reported.events += "TSCAW"[event.index()];
      if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
        requests.push_back(arrived->request);
        requests.back().prefix_keys = {};
      } else if (const auto* finished = std::get_if<StepFinished>(&event)) {
        Launched& step = launches[static_cast<std::size_t>(Index(finished->step)) - 1];
        step.started = finished->started;
        step.finished = instant.now;
      }
    }
    return instant;
  }

  void Launch(const StepPlan& plan) override {
    world_.Launch(plan);
    launches.push_back({world_.now(), plan, world_.last_stages()});
  }

  [[nodiscard]] const RequestLife& Life(std::uint32_t number) const {
    for (const RequestLife& life : lives) {
      if (Index(life.id) == number) return life;
    }
    CHECK(false);
    return lives.front();
  }

  std::vector<Reported> instants;
  std::vector<Request> requests;   // as announced, without their keys
  std::deque<Launched> launches;   // step k at k - 1
  std::vector<RequestLife> lives;  // in the order of their ends

 private:
  void OnEnded(const RequestLife& life) override { lives.push_back(life); }

  sim::SimWorld world_;
};

}  // namespace twin::testing
