// Turns instants and plans into the lives of requests and steps, for all metrics and tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/id_table.h"
#include "core/ring_queue.h"
#include "run/record/run_listener.h"
#include "run/record/run_observer.h"
#include "sched/decode_set.h"
#include "sched/policy/policy.h"

namespace twin {

// The measured requests: requests inside both ranges. Leaves out warm-up and cool-down.
struct MeasuredWindow {
  std::uint64_t first_request = 0;
  std::uint64_t last_request = ~std::uint64_t{0};  // inclusive
  TimePoint first_arrival = TimePoint::min();
  TimePoint last_arrival = TimePoint::max();  // inclusive

  // Leaves out the first `head` and the last `tail` (shares of 1) of `requests` requests, rounded
  // down. REQUIRES: head, tail >= 0, head + tail < 1, requests >= 1.
  static MeasuredWindow Trimmed(std::uint64_t requests, double head, double tail);
};

struct TrackerConfig {
  std::int32_t kv_blocks = 0;  // usable device blocks of a replica, for Load::used_blocks
  Delivery delivery = Delivery::kPerStep;
  MeasuredWindow window;
  std::vector<std::int32_t> blocks_by_replica = {};  // in place of kv_blocks, unless empty
  // The only replica that is followed, which gets one in many requests; -1: all replicas.
  std::int32_t only_replica = -1;
};

// Follows every request from its arrival to its end and notifies the listeners, which it borrows.
//
// A token becomes visible at the instant that carries its StepFinished. With Delivery::kBatchEnd
// the tokens of all requests that one plan admitted first become visible together, when the last of
// them ends; the requests complete at that time. No ITL is then reported.
// Freed blocks are counted from their replica's next plan on, or when its last request leaves.
// A step that gives all decoding requests a token is counted once for all of them, in constant
// time. Memory: constant per live request, per replica and per step in flight; nothing is allocated
// per step.
class RequestTracker : public RunObserver {
 public:
  RequestTracker(const TrackerConfig& config, std::span<RunListener* const> listeners);

  // Replaces the listeners of all events from now on.
  void ReplaceListeners(std::span<RunListener* const> listeners) {
    listeners_.assign(listeners.begin(), listeners.end());
  }

  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;
  [[nodiscard]] bool takes_streaks() const override {
    return std::ranges::all_of(listeners_, &RunListener::takes_streaks);
  }
  void OnStreak(const StreakPart& part) override;

  // OnInstant() without OnLoad(), for replicas that are followed one after the other, or several at
  // once. One tracker takes all arrivals. A tracker for each replica takes its requests over from
  // that one, several at once, each before it takes another event of the request. Then the first
  // tracker forgets them.
  void TakeEvents(TimePoint now, std::span<const Event> events);
  // REQUIRES: the request has arrived at `from`, and nothing else has happened to it.
  void TakeOver(RequestId id, RequestTracker& from);
  // REQUIRES: another tracker has taken it over.
  void Forget(RequestId id) {
    tracks_.Close(id);
    --load_.waiting;
  }
  // Configuration of a tracker for this replica alone.
  [[nodiscard]] TrackerConfig ReplicaConfig(std::int32_t replica) const;

  // Requests that have arrived and not left (with kBatchEnd: whose tokens are not visible yet).
  [[nodiscard]] std::int64_t live() const { return static_cast<std::int64_t>(tracks_.size()); }
  // Requests that have arrived, measured or not.
  [[nodiscard]] std::int64_t arrived() const { return arrived_; }
  [[nodiscard]] const Load& load() const { return load_; }

  // Calls visit(const RequestLife&) for each live request, in order of arrival.
  template <class Visit>
  void ForEachLive(Visit visit) {
    for (Replica& replica : replicas_) SettleAll(replica.decodes);
    tracks_.ForEach([&](RequestId, const Track& track) { visit(track.life); });
  }

 private:
  // A request, and the state needed to follow it.
  struct Track {
    RequestLife life;
    std::int32_t tokens_at_admission = 0;  // output tokens at the latest admission
    std::int32_t prefilled = 0;            // where its latest prefill item ended
    std::int32_t ever_computed = 0;        // tokens computed before a preemption lost them
    std::int32_t transferred = 0;          // tokens that came from another replica, not yet used
    std::uint64_t batch = 0;               // the plan that first admitted it (kBatchEnd); 0: none
    bool in_decode_set = false;            // of its replica
    std::int64_t settled = 0;              // the steps of the set of which its tokens are in `life`
  };
  // Requests whose tokens become visible together.
  struct Batch {
    std::uint64_t plan = 0;
    std::int32_t running = 0;
    std::vector<RequestId> members;
  };
  struct StepInFlight {
    const StepPlan* plan = nullptr;
    TimePoint planned;
    std::int64_t recomputed_tokens = 0;
    std::int64_t decode_context_tokens = 0;
  };
  // Equal ITLs, reported together: almost all tokens of a step share one.
  struct Gaps {
    TimePoint from = kTimeNever;  // time of the token before; kTimeNever: first tokens
    Duration gap{0};
    std::int64_t count = 0;
    std::size_t tokens = 0;  // tokens of all gaps of the step, first tokens included
  };
  // The requests that decode, whose tokens are not yet written to their tracks.
  struct Decodes {
    DecodeSet set;
    std::int64_t measured = 0;  // members inside the measured window
    TimePoint latest;           // when the members got their latest token
    // Members that got theirs at another time, with a prompt that was computed apart from decodes.
    std::vector<RequestId> apart;
    // The ITLs of the set's steps, without those that are not above a later one.
    std::vector<std::pair<std::int64_t, Duration>> falling_gaps;  // step, ITL

    // Bounds the memory of a set whose steps get shorter and shorter.
    static constexpr std::size_t kFallingGapsMax = 64;

    Decodes() {
      apart.reserve(DecodeSet::kMembersReserved);
      falling_gaps.reserve(kFallingGapsMax);
    }
  };
  struct Replica {
    RingQueue<StepInFlight> in_flight;
    Decodes decodes;
    std::vector<Batch> batches;            // the open ones (kBatchEnd)
    std::vector<RequestId> spare_members;  // memory of the latest batch, for reuse
    std::int32_t admitted = 0;             // running or swapped requests
    std::int32_t used_blocks = 0;
  };

  void Arrive(TimePoint now, const RequestArrived& arrived);
  void Cancel(TimePoint now, const RequestCancelled& cancelled);
  void TakeTransferred(const TransferFinished& finished);
  // Reports the load until `now`.
  void PassTo(TimePoint now);
  void FinishStep(TimePoint now, const StepFinished& finished);
  void Finish(TimePoint now, Decodes& decodes, const StepInFlight& step,
              const StepFinished& finished);
  void TakeTokens(TimePoint now, Decodes& decodes, const StepPlan& plan,
                  const StepFinished& finished);
  void TakeItemByItem(TimePoint now, Decodes& decodes, const StepPlan& plan,
                      const StepFinished& finished);
  void TakeNewcomers(TimePoint now, const StepPlan& plan, Decodes& decodes);
  // Each member got a token.
  void TakeFromSet(TimePoint now, Decodes& decodes);
  void Join(Track& track, Decodes& decodes);
  // Writes the tokens that the set has given a member to its track.
  void Settle(Track& track, const Decodes& decodes) const;
  void SettleAll(Decodes& decodes);
  // The request gets no further token from its replica's set.
  void LeaveDecodes(Track& track);
  void ClearDecodes(Decodes& decodes);
  [[nodiscard]] std::int32_t BlocksOf(std::int32_t replica) const {
    const std::vector<std::int32_t>& blocks = config_.blocks_by_replica;
    return blocks.empty() ? config_.kv_blocks : blocks.at(static_cast<std::size_t>(replica));
  }
  // The state of the replica with this index, of the first one for an index of -1; added if it is
  // new.
  [[nodiscard, gnu::always_inline]] inline Replica& ReplicaAt(std::int32_t index) {
    const std::size_t i = Place(index);
    if (i >= replicas_.size()) [[unlikely]]
      AddReplicas(i + 1);
    return replicas_[i];
  }
  [[nodiscard]] std::size_t Place(std::int32_t replica) const {
    return static_cast<std::size_t>(std::max(replica - first_replica_, 0));
  }
  void AddReplicas(std::size_t count);
  void Use(Replica& replica, std::int32_t blocks);
  void TakeException(TimePoint now, const ItemOutcome& outcome, Gaps& gaps);
  void Emit(TimePoint now, RequestLife& life, Gaps& gaps);
  void ReportGaps(TimePoint now, const Gaps& gaps);
  void End(TimePoint now, Track& track, FinishReason reason);
  void Leave(TimePoint now, Track& track, RequestStatus status);
  void LeaveEngine(Track& track);
  [[nodiscard]] std::int32_t& CountOf(RequestStatus status);

  void Preempt(const Preemption& preemption);
  void Admit(const StepPlan& plan);
  [[nodiscard]] std::int64_t Schedule(TimePoint now, const StepPlan& plan);
  [[nodiscard]] std::int32_t ComputedUntil(const Track& track) const;
  void JoinBatch(StepId plan, Track& track);
  void LeaveBatch(TimePoint now, const Track& track);
  void Deliver(TimePoint now, std::span<const RequestId> members);

  TrackerConfig config_;
  std::int32_t first_replica_;
  std::vector<RunListener*> listeners_;
  IdTable<Track> tracks_;
  std::vector<Replica> replicas_;
  Load load_;
  std::int64_t arrived_ = 0;
  TimePoint load_since_ = TimePoint::min();  // min: no instant yet
};

}  // namespace twin
