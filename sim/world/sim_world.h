// The simulated world: a discrete-event simulation in which steps take as long as a cost model
// says.
//
// The simulation keeps a queue of step deliveries and the next arrival of the workload. Advance()
// jumps to the earlier of the two and returns everything that happens at that time; Launch()
// computes when the results of the step will be delivered and adds that to the queue. Nothing
// happens in between, so a run costs time in proportion to its steps and requests, not to its
// simulated time.
//
// A step passes three resources. The host takes HostTime() and handles one step at a time. The
// pipeline's stages follow in order; each takes its device time and holds one step at a time.
// Delivery takes DeliveryTime() after the last stage and occupies no resource: with several steps
// in flight (asynchronous scheduling, pipelines) the devices work on the next step while results of
// the last one are delivered. Hence the devices hide host time, and pipeline bubbles show.
//
// Several replicas, each with a host and stages of its own, share the clock and the arrivals. A
// plan says whose step it is; results of one time come in the order of the replicas.
//
// Easy to get wrong: the engine must see a token when it is delivered, not when the device has
// computed it; results of one time come before arrivals of that time, and steps are delivered in
// the order of their launch, also steps that never reach a device (rejections); a request that has
// ended may still be computed by a step that was launched before, whose token is dropped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/arrival_source.h"
#include "core/id_table.h"
#include "core/prefix_keys.h"
#include "core/traced_request.h"
#include "sched/decode_set.h"
#include "sched/stale_tokens.h"
#include "sched/world.h"
#include "sim/cost/step_cost.h"
#include "sim/world/acceptance.h"
#include "sim/world/clients.h"
#include "sim/world/event_queue.h"
#include "sim/world/hidden_request.h"
#include "sim/world/kv_links.h"
#include "sim/world/next_arrival.h"
#include "sim/world/sim_world_options.h"

namespace twin::sim {

// Events of one instant: all transfers and results, then all cancellations, then all arrivals.
// Memory: proportional to the requests in the system.
class SimWorld final : public World {
 public:
  // Borrows the source and the cost model for its lifetime.
  SimWorld(ArrivalSource& source, const StepCost& cost, const SimWorldOptions& options);

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  // Looks ahead in worlds of one replica without drafts, links and pace.
  void Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) override;
  void Transfer(const KvTransfer& transfer) override;

  // Cancels a request that has arrived, if it has not left by then. REQUIRES: time > now(),
  // cancellable or a pace in the options.
  void Cancel(const RequestCancelled& cancelled, TimePoint time);

  // The calls up to AdvanceTo replace Advance, to let replicas advance one after the other, or
  // several at once (sim_world.cc): this world only announces requests, and each replica has
  // a world of its own. REQUIRES: replicas_are_separate().
  [[nodiscard]] bool replicas_are_separate() const {
    return clients_ == nullptr && !links_ && !source_.reacts();
  }
  // A world for one replica. Borrows the replica's cost model, and nothing of this world.
  [[nodiscard]] std::unique_ptr<SimWorld> WorldOf(std::int32_t replica) const;
  // The further arrivals before `until`, each at its request.arrival; valid until the next call.
  // Without `prefix_keys`, which AdvanceTo adds, they take less memory.
  std::span<const Event> ArrivalsBefore(TimePoint until, bool prefix_keys);
  [[nodiscard]] TimePoint next_arrival() { return std::max(source_.next_time(), kTimeZero); }
  // The request goes on in another world, which has taken it over.
  void Forget(RequestId id) { CloseHidden(id); }

  // For a world that WorldOf has made: copies a request from `from`, the world that announced it.
  // Several worlds may call it at once.
  void TakeOver(RequestId id, SimWorld& from);
  [[nodiscard]] TimePoint next_result() const { return NextResult(); }
  // The next instant, with the results due by `now` and the given arrivals.
  Instant AdvanceTo(TimePoint now, std::span<const Event> arrivals);

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] std::uint32_t arrived() const { return next_id_; }
  // When the engine gets the results of the last step that the replica launched.
  [[nodiscard]] TimePoint last_delivery(std::int32_t replica = 0) const {
    return replicas_[static_cast<std::size_t>(replica)].last_delivery;
  }

  // Begin and end of a step on one pipeline stage.
  struct StageSpan {
    TimePoint begin;
    TimePoint end;
  };
  // Spans of the last launched step, one per stage; empty if it took no device time.
  [[nodiscard]] const std::vector<StageSpan>& last_stages() const { return stage_spans_; }
  // The states of the replica's devices at the end of its last launched step, by stage; empty if
  // the cost model remembers nothing.
  [[nodiscard]] std::span<const DeviceState> devices(std::int32_t replica = 0) const {
    return replicas_[static_cast<std::size_t>(replica)].devices;
  }

 private:
  // The requests that decode, whose tokens are not yet subtracted from their HiddenRequest.
  struct Decodes {
    DecodeSet set;
    // The first step of the set that may give a member its last token.
    std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
    // Where blocks are named: the members by the tick at which their open block is full. Ticks
    // count the steps of the set modulo the block size.
    std::vector<std::vector<RequestId>> filling;
    std::int32_t tick = 0;

    // REQUIRES: blocks are named, 0 <= steps <= their size.
    [[nodiscard]] std::int32_t TickAfter(std::int32_t steps) const {
      const auto ticks = static_cast<std::int32_t>(filling.size());
      return tick + steps >= ticks ? tick + steps - ticks : tick + steps;
    }
  };
  struct RunningStep {
    const StepPlan* plan = nullptr;
    TimePoint started;
  };
  struct Replica {
    const StepCost* cost = nullptr;
    std::unique_ptr<StepTimer> timer;  // of the cost model
    bool forgets_stale_tokens = false;
    bool overlaps_own_steps = false;
    Decodes decodes;
    StaleTokens stale;
    TimePoint host_free = kTimeZero;
    TimePoint last_delivery = kTimeZero;
    std::vector<TimePoint> stage_free;
    std::vector<DeviceState> devices;  // by stage; empty if the cost model remembers nothing
  };
  struct ReturnedStep {
    RunningStep step;
    std::size_t outcomes_end = 0;  // end of the step's range in outcomes_
    std::size_t filled_end = 0;    // end of the range in filled_
  };

  // time + duration. Throws InputError (data) if the sum exceeds the range of the clock.
  [[nodiscard]] static TimePoint After(TimePoint time, Duration duration);
  [[nodiscard]] TimePoint NextResult() const {
    return std::min(steps_.next_time(), transfers_.next_time());
  }
  // Computes when the step runs and returns, and adds it to the queue as `launched`, which may hold
  // its plan only later. Returns when the step starts.
  TimePoint Run(const StepPlan& plan, Replica& replica, const StepPlan* launched);
  void SetUpReplicas(const StepCost& cost);
  void ReturnResults();
  Instant WakeUpAt(TimePoint wake_at);
  Instant AdvanceWithClients(TimePoint wake_at);
  void TakeArrivals();
  void TakeFromClients();
  void Announce(const TracedRequest& traced, Duration response_delay, bool prefix_keys = true);
  void StoreContent(const TracedRequest& traced, RequestId id, HiddenRequest& hidden);
  // The keys of the full blocks of its prompt, from the stored content; valid in this instant.
  std::span<const BlockKey> ComputePromptKeys(const Request& request);
  // The request has left; `answer_tokens`: ArrivalSource::OnDone.
  void Depart(RequestId id, std::int32_t answer_tokens);
  void Admit(RequestId id, std::int32_t replica);
  void CloseHidden(RequestId id);
  void ReturnSteps();
  // Emits one token for each work item that computes all known tokens of its request.
  void EmitTokens(const StepPlan& plan);
  void EmitItemByItem(const StepPlan& plan, Replica& replica);
  void EmitToken(RequestId id, HiddenRequest& hidden);
  // Emits the drafts that are accepted and one token more.
  void EmitVerified(const WorkItem& item, HiddenRequest& hidden);
  // Emits the tokens of a step that gives one to each member or to none, in batch order.
  void EmitToMembers(const StepPlan& plan, Replica& replica, bool to_all);
  // Reports the blocks of members that are full, in batch order, if the places that the members
  // had in an earlier step tell it; otherwise does nothing and returns false.
  [[nodiscard]] bool FillInOrder(const StepPlan& plan, const Decodes& decodes);
  void Join(RequestId id, HiddenRequest& hidden, std::int32_t replica);
  // Subtracts the tokens that the set had given it after `steps` steps; it is no member any more.
  void Settle(HiddenRequest& hidden, std::int64_t steps) const;
  void LeaveDecodes(RequestId id, HiddenRequest& hidden, std::int64_t steps);
  void LeaveDecodes(RequestId id, HiddenRequest& hidden) {
    LeaveDecodes(id, hidden, ReplicaAt(hidden.replica).decodes.set.steps());
  }
  void ClearDecodes(Decodes& decodes);
  [[nodiscard]] Replica& ReplicaAt(std::int32_t index) {
    return replicas_[static_cast<std::size_t>(index - first_replica_)];
  }
  // Reports the open block if it is full, and the end of the request if its output is complete.
  void CompleteBlockAndRequest(RequestId id, HiddenRequest& hidden);
  void FillBlock(RequestId id, HiddenRequest& hidden);

  // With several pipeline stages, a policy that overlaps its own steps launches a step before the
  // last stage has sampled the tokens that it decodes: its first stage waits for them.
  [[nodiscard]] TimePoint InputTokensAt(const StepPlan& plan);
  void SetTokenTimes(const StepPlan& plan, TimePoint end);

  NextArrival source_;                // not asked where there are clients
  std::unique_ptr<Clients> clients_;  // only where they do more than send
  SimWorldOptions options_;
  std::optional<Acceptance> acceptance_;
  TimePoint now_ = kTimeZero;
  std::uint32_t next_id_ = 0;
  std::int32_t first_replica_;
  IdTable<HiddenRequest> hidden_requests_;
  bool keeps_details_;
  IdTable<HiddenDetails> details_;  // if keeps_details_: of the requests in hidden_requests_
  bool keeps_token_times_ = false;
  // If keeps_token_times_: when the last stage samples the latest token of each request.
  IdTable<TimePoint> tokens_at_;
  std::vector<Replica> replicas_;
  EventQueue<RunningStep> steps_;
  std::optional<KvLinks> links_;
  EventQueue<TransferFinished> transfers_;
  std::vector<Duration> stage_times_;  // of the replica with the most stages
  std::vector<StageSpan> stage_spans_;
  std::vector<Event> events_;
  std::vector<Event> arrivals_;  // of ArrivalsBefore
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  StepPlan repeated_;                               // scratch of Continue
  std::vector<std::size_t> places_;                 // scratch of FillInOrder
  std::vector<ReturnedStep> returned_;              // in this instant
  std::vector<std::vector<BlockKey>> prompt_keys_;  // of this instant's arrivals; reused
  std::size_t prompt_keys_used_ = 0;
};

}  // namespace twin::sim
