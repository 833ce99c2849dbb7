#include "run/hostile/hostile_run.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "run/record/recording_world.h"
#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/serve.h"

namespace twin {
namespace {

// Audits the engines of all replicas after each instant, when all plans have been launched.
class AuditingWorld final : public World {
 public:
  // Far more instants than the longest terminating run of these sizes takes.
  static constexpr std::int64_t kInstantsMax = 100'000;

  AuditingWorld(HostileWorld& inner, std::vector<const Engine*> engines)
      : inner_(inner), engines_(std::move(engines)) {}

  Instant Advance(TimePoint wake_at) override {
    Audit();
    const Instant instant = inner_.Advance(wake_at);
    if (instant.now < now_) throw HostileBreach("the clock went backwards");
    now_ = instant.now;
    if (++instants_ > kInstantsMax) throw HostileBreach("the run does not end");
    return instant;
  }

  void Launch(const StepPlan& plan) override {
    const PolicyTraits& traits = engines_.front()->policy().traits();
    std::int64_t tokens = 0;
    for (const WorkItem& item : plan.work) tokens += item.tokens;
    if (traits.tokens_per_step_max > 0 && tokens > traits.tokens_per_step_max) {
      throw HostileBreach("a step exceeds the token budget");
    }
    inner_.Launch(plan);
  }

  void Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) override {
    inner_.Continue(latest, steps_max, part);
    instants_ += static_cast<std::int64_t>(part.moments.size());
    if (!part.moments.empty()) now_ = part.moments.back().now;
  }
  void Continued(const StreakPart& part) override {
    inner_.Continued(part);
    Audit();
  }
  void Transfer(const KvTransfer& transfer) override { inner_.Transfer(transfer); }

 private:
  void Audit() const {
    if (!inner_.fault().empty()) throw HostileBreach(inner_.fault());
    const std::int32_t live = inner_.count(HostileWorld::Fate::kLive);
    std::int32_t known = 0;
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      known += AuditReplica(*engines_[i], static_cast<std::int32_t>(i));
    }
    if (known != live) {
      throw HostileBreach("the engines have " + std::to_string(known) + " requests, of which " +
                          std::to_string(live) + " should be left");
    }
  }

  // Returns the number of its requests.
  std::int32_t AuditReplica(const Engine& engine, std::int32_t replica) const {
    const std::int32_t steps = inner_.steps_in_flight(replica);
    const Census& census = engine.census();
    const std::int32_t known = census.waiting + census.running + census.swapped;
    if (engine.steps_in_flight() != steps)
      throw HostileBreach("the engine has lost count of its steps");
    const bool transfers = census.arriving > 0 || inner_.prefills(replica);
    if (known > 0 && steps == 0 && !transfers && engine.wake_at() == kTimeNever)
      throw HostileBreach("the device idles, work waits");
    if (instants_ % 7 == 0) engine.CheckMemory();
    return known;
  }

  HostileWorld& inner_;
  std::vector<const Engine*> engines_;
  TimePoint now_ = kTimeZero;
  std::int64_t instants_ = 0;
};

// Throws if anything is wrong with the run of the scheduler, which is an Engine or a Cluster.
template <class Scheduler>
void RunScheduler(const HostileOptions& options, Scheduler& scheduler,
                  const std::vector<const Engine*>& engines, RunObserver& observer) {
  HostileWorld hostile(options);
  AuditingWorld auditing(hostile, engines);
  RecordingWorld world(auditing, std::array<RunObserver*, 1>{&observer});
  Serve(scheduler, world);
  scheduler.CheckDrained();
  using Fate = HostileWorld::Fate;
  if (hostile.count(Fate::kFinished) + hostile.count(Fate::kRejected) +
          hostile.count(Fate::kCancelled) !=
      hostile.requests()) {
    throw HostileBreach("requests were lost");
  }
}

}  // namespace

void RunHostile(const HostileOptions& options, Engine& engine, RunObserver& observer) {
  RunScheduler(options, engine, {&engine}, observer);
}

void RunHostile(const HostileOptions& options, Cluster& cluster,
                const std::vector<const Engine*>& engines, RunObserver& observer) {
  RunScheduler(options, cluster, engines, observer);
}

}  // namespace twin
