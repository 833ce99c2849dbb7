// Several replicas and their router: engines that decide as one scheduler.
//
// A cluster stands where an engine stands in the serving loop (serve.h). It sends each arriving
// request to the replica that its router chooses and passes every other event to the engine whose
// event it is; then it asks the engines that heard of something for their plans. All replicas use
// the world's request ids; steps are numbered within their replica, and plans carry its index.
// The plans of an instant come replica by replica, in the order of their indices.
//
// With two pools of replicas, prefill and decode are separate: a request goes to a replica of the
// first pool, which computes its prompt and emits its first token, and from there to one of the
// second pool, which pulls the keys and values (kv_transfer.h) and decodes. The first replica keeps
// the blocks until they are copied. Hence if the second one has no room, the first one soon runs
// out of blocks and admits nothing. With mixed pools both replicas are chosen when a request
// arrives; one replica may do both.
//
// The cluster counts the load that routers know of (route/telemetry.h) from the events and plans
// that pass, so that the record of a run is enough to route it again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/id_table.h"
#include "core/id_window.h"
#include "core/ids.h"
#include "core/time.h"
#include "sched/engine.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/route/mixed_pools.h"
#include "sched/route/router.h"
#include "sched/route/telemetry.h"

namespace twin {

// Replicas that a router chooses from.
struct ReplicaPool {
  std::int32_t replicas = 0;       // 0, of a pool alone: all
  std::unique_ptr<Router> router;  // for as many replicas
  Duration telemetry_delay{0};
};

// Owns engines and routers. Cost of a call beyond the engine's: constant per event and plan, and
// the router's cost per request; an instant costs nothing for replicas that it does not concern.
// A WakeUp concerns the replicas whose time has come, or all replicas if there is none.
class Cluster {
 public:
  // One pool of all engines. REQUIRES: at least one engine; EngineConfig::replica of each is its
  // index.
  Cluster(std::vector<std::unique_ptr<Engine>> engines, std::unique_ptr<Router> router,
          Duration telemetry_delay);
  // One pool of all engines, or two: the engines of lower index prefill, the other ones decode.
  Cluster(std::vector<std::unique_ptr<Engine>> engines, std::vector<ReplicaPool> pools);
  // Pools between which replicas move. REQUIRES: PolicyTraits::mixes_phases of all engines.
  Cluster(std::vector<std::unique_ptr<Engine>> engines, MixedPools mixed);

  // REQUIRES: the order of events in event.h; `now` is the instant's, until PlanStep has returned
  // nullptr.
  void Handle(TimePoint now, const Event& event);

  // The next step of any replica, or nullptr if there is nothing to do until the next event. The
  // plan stays valid until its StepFinished has been handled. Throws InvariantViolation.
  const StepPlan* PlanStep(TimePoint now);

  // The next transfer between replicas, or nullptr. Call it until then once PlanStep has returned
  // nullptr. Valid until the next call; its blocks until its TransferFinished has been handled.
  const KvTransfer* NextTransfer();

  // When PlanStep must be called again even if nothing happens: the earliest time of any engine.
  [[nodiscard]] TimePoint wake_at();

  [[nodiscard]] std::int32_t replicas() const { return static_cast<std::int32_t>(engines_.size()); }
  [[nodiscard]] Engine& engine(std::int32_t replica) {
    return *engines_[static_cast<std::size_t>(replica)];
  }

  // The calls below replace Handle and PlanStep, to let replicas go through a window of time one
  // after the other, or several at once on different threads (cluster.cc). First the requests
  // of the window are routed. Then each replica is told of its own events, and asked for its plans
  // until nullptr. Several threads may call HandleInWindow and PlanInWindow, but only one thread
  // for one replica; all other calls are for one thread.

  // The longest window: the delay of news to the router. 0: replicas must go instant by instant.
  [[nodiscard]] Duration window_max() const;
  // The replica of the next request.
  [[nodiscard]] std::int32_t RouteInWindow(TimePoint now, const Request& request);
  // Whether the router's choice depends on the keys of a prompt.
  [[nodiscard]] bool routes_by_prefix() const { return pools_.front().router->reads_prefixes(); }
  void HandleInWindow(std::int32_t replica, std::span<const Event> events);
  const StepPlan* PlanInWindow(TimePoint now, std::int32_t replica);
  // Passes the replicas' reports of the window on to the router, in order of time.
  void EndWindow();

  // Throws InvariantViolation (I11) unless every engine is drained and every request was routed
  // and has left.
  void CheckDrained() const;

 private:
  // A request that has not left its replica.
  struct Placement {
    std::int32_t replica = 0;
    std::int32_t prompt_left = 0;  // prompt tokens not computed yet
    bool answered = false;         // has emitted a token
  };
  // Where a request is that prefills at one replica and decodes at another.
  struct Journey {
    Request request;        // without its keys
    TimePoint computed;     // its prompt
    std::int32_t from = 0;  // replica that prefills it
    std::int32_t to = -1;   // that decodes it, where that is chosen on arrival
    std::int32_t held = 0;  // tokens whose blocks are held there, and no transfer has begun
  };
  struct Pool {
    std::int32_t first = 0;  // replica
    std::unique_ptr<Router> router;
    Telemetry telemetry;
    bool reads_loads = false;
    bool reads_blocks = false;
    bool received = false;  // whether the router has its news of the present instant
  };
  struct State {
    bool touched = false;     // in the present instant
    std::int32_t blocks = 0;  // as reported last
    LoadReport report;        // of the present instant
  };
  // State of a replica that goes through a window by itself, if the router reads loads.
  struct Ahead {
    IdTable<Placement> placements{IdShare::kFew};           // in place of placements_
    std::vector<std::pair<TimePoint, LoadReport>> reports;  // of the present window
  };

  struct Wake {
    TimePoint time;
    std::int32_t replica = 0;
  };
  static bool Later(const Wake& a, const Wake& b) { return a.time > b.time; }

  void Route(TimePoint now, const RequestArrived& arrived);
  // The replica of the pool that gets the request.
  [[nodiscard]] std::int32_t Choose(Pool& pool, TimePoint now, const Request& request);
  [[nodiscard]] Pool& PoolOf(std::int32_t replica) {
    return pools_[pools_.size() > 1 && replica >= pools_.back().first ? 1 : 0];
  }
  [[nodiscard]] bool separates() const { return pools_.size() > 1 || mixed_; }
  // Sends the requests on that the replica has prefilled.
  void SendOn(TimePoint now, std::int32_t replica);
  // Begins the transfers for which the replica has taken blocks.
  void BeginTransfers(TimePoint now, std::int32_t replica);
  // Reports the prompts that the step has computed to the mixed pools.
  void CountComputed(TimePoint now, const StepFinished& finished);
  // The request needs no blocks at the replica that prefilled it.
  void ReleaseHeld(TimePoint now, RequestId id, Journey& journey);
  void OnStepFinished(TimePoint now, const StepFinished& finished);
  void CountPrompts(const StepPlan& plan, IdTable<Placement>& placements);
  void LeaveAhead(std::int32_t replica, RequestId id);
  void Leave(TimePoint now, RequestId id);
  // Counts that the request has left the replica.
  void CountLeft(const Placement& placement);
  void Touch(std::int32_t replica);
  // Touches the replicas whose engines wanted to plan again by now.
  void TouchDue(TimePoint now);
  // Adds the change of the blocks in use to the replica's report; false if the report is empty.
  [[nodiscard]] bool CompleteReport(std::int32_t replica);
  void Report(TimePoint now, std::int32_t replica);

  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Pool> pools_;
  IdTable<Placement> placements_{IdShare::kAll};
  IdWindow<Journey> journeys_;  // where prefill and decode are separate
  std::optional<MixedPools> mixed_;
  std::vector<KvTransfer> transfers_;  // of the present instant
  std::size_t next_transfer_ = 0;
  std::vector<State> states_;
  std::vector<Ahead> ahead_;  // by replica; empty unless replicas go ahead and loads are read
  std::vector<std::int32_t> touched_;  // replicas of the present instant, in order once planning
  std::size_t planning_ = 0;           // index in touched_: earlier replicas have planned
  // A heap of times at which engines wanted to plan again. An entry counts while it is its
  // engine's.
  std::vector<Wake> wakes_;
};

}  // namespace twin
