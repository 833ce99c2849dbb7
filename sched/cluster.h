// Replicas behind a router: engines that decide as one scheduler.
//
// A cluster stands where an engine stands in the serving loop (serve.h). It sends each arriving
// request to the replica that its router chooses and passes every other event to the engine whose
// event it is; then it asks the engines that heard of something for their plans. Request ids are
// those of the world, in all replicas; steps are numbered within their replica, and plans carry its
// index. The plans of an instant come replica by replica, in the order of their indices.
//
// With two pools of replicas, prefill and decode are separate: a request goes to a replica of the
// first pool, which computes its prompt and emits its first token, and from there to one of the
// second pool, which pulls the keys and values (kv_transfer.h) and decodes. The first keeps the
// blocks until they are copied: where the second has no room, it soon has none either, and admits
// nobody. With mixed pools both replicas are chosen when a request arrives; one may do both.
//
// What routers know of their replicas is counted here, from the events and plans that pass
// (route/telemetry.h), so that the record of a run is enough to route it again.
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

// Owns engines and routers. Cost of a call beside that of the engine: constant per event and plan,
// and what the router takes per request; an instant costs nothing for replicas that it does not
// concern. A WakeUp concerns those whose time has come, or all if there is none.
class Cluster {
 public:
  // REQUIRES: at least one engine; EngineConfig::replica of each is its index.
  Cluster(std::vector<std::unique_ptr<Engine>> engines, std::unique_ptr<Router> router,
          Duration telemetry_delay);
  // The same with one pool of all engines, or with a pool that prefills, the engines of lower
  // index, and one that decodes.
  Cluster(std::vector<std::unique_ptr<Engine>> engines, std::vector<ReplicaPool> pools);
  // The same with pools between which replicas move. REQUIRES: PolicyTraits::mixes_phases of all
  // engines.
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

  // In place of Handle and PlanStep, to let replicas go on one after the other, or several at once
  // on different threads (cluster_ahead.cc): requests are routed first, and then each replica is
  // told of its own events, and asked for its plans until nullptr, up to the end of a window of
  // time. Only HandleInWindow and PlanInWindow may be called by several threads, those of a replica
  // by one.

  // How long windows may be: no longer than the news takes to the router. 0: not at all.
  [[nodiscard]] Duration window_max() const;
  // The replica of the next request.
  [[nodiscard]] std::int32_t RouteInWindow(TimePoint now, const Request& request);
  // Whether that depends on the keys of its prompt.
  [[nodiscard]] bool routes_by_prefix() const { return pools_.front().router->reads_prefixes(); }
  void HandleInWindow(std::int32_t replica, std::span<const Event> events);
  const StepPlan* PlanInWindow(TimePoint now, std::int32_t replica);
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
    bool received = false;  // reports, in the present instant
  };
  struct State {
    bool touched = false;     // in the present instant
    std::int32_t blocks = 0;  // as reported last
    LoadReport report;        // of the present instant
  };
  // A replica of one that goes ahead, whose router reads loads.
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
  // Tells the mixed pools which prompts the step has computed.
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
  // Adds what the pool holds to the replica's report; false if there is nothing to report.
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
  std::size_t planning_ = 0;           // in touched_: those before have planned
  // A heap of times at which engines wanted to plan again. An entry counts while it is its
  // engine's.
  std::vector<Wake> wakes_;
};

}  // namespace twin
