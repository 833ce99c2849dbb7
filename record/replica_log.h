// What replicas did, taken down one replica after the other and shown in the order of time.
//
// Digest and metrics depend on the order of events over all replicas. Who simulates one replica for
// a while and then the next one lets a RequestTracker follow in that order, with this log as its
// listener; Replay() then gives the digest and the listeners what Serve would have given them, in
// the same order. Only OnPlanned and OnStepEnded pass at once, replica by replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/plan_digest.h"
#include "record/run_listener.h"

namespace twin {

// Borrows the digest and the listeners. Memory: of the instants since the latest Replay().
class ReplicaLog final : public RunListener {
 public:
  ReplicaLog(PlanDigest& digest, std::span<RunListener* const> listeners)
      : digest_(digest), listeners_(listeners.begin(), listeners.end()) {}

  // The replica of an arrival that has not been routed yet.
  static constexpr std::int32_t kArrival = -1;

  // Begins an instant of the replica; ends the one before. What the log hears as a listener belongs
  // to its events until BeginPlans(), then to its plans. REQUIRES: the instants of a replica in the
  // order of time, and from one Replay() to the next no replica comes again once another one began.
  void BeginInstant(std::int32_t replica, TimePoint now);
  void BeginPlans() { entries_.back().event_calls = CallsOfEntry(); }
  void AddPlan(const StepPlan& plan);
  // The instant changed the load of its replica from `before` to `after`.
  void EndInstant(const Load& before, const Load& after);

  // Shows all instants. REQUIRES: none that is still to come is earlier than any of them. Returns
  // their number.
  std::size_t Replay();

  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnPlanned(TimePoint now, const StepPlan& plan) override;
  void OnGaps(TimePoint now, Duration gap, std::int64_t count) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnEnded(const RequestLife& life) override;

 private:
  struct Call {
    enum class Kind : std::uint8_t { kArrived, kGaps, kEnded };
    Kind kind{};
    std::uint32_t life = 0;  // in lives_, of a request that arrived or ended
    Duration gap{0};
    std::int64_t count = 0;
  };
  struct Entry {
    std::uint32_t first_word = 0;
    std::uint32_t words = 0;
    std::uint32_t first_call = 0;
    std::uint32_t event_calls = 0;
    std::uint32_t plan_calls = 0;
    std::uint32_t plans = 0;
    Load change = {};
  };
  // Sorts entries. Those of one replica at one time follow each other in rounds: a step without
  // duration is delivered at the time of its launch, behind the results and plans of all replicas.
  struct Place {
    TimePoint time;
    std::uint32_t rank = 0;  // 2 * round + 1 for arrivals, which come behind results
    std::uint32_t entry = 0;
    [[nodiscard]] std::uint32_t round() const { return rank / 2; }
  };

  [[nodiscard]] std::uint32_t CallsOfEntry() const {
    return static_cast<std::uint32_t>(calls_.size()) - entries_.back().first_call;
  }
  void AddLife(Call::Kind kind, const RequestLife& life);
  void PassTo(TimePoint now);
  void Repeat(TimePoint now, std::uint32_t first, std::uint32_t count);
  void ReplayInstant(std::span<const Place> places);
  void PrefetchAhead(std::size_t i) const;

  PlanDigest& digest_;
  std::vector<RunListener*> listeners_;
  std::vector<Entry> entries_;
  std::vector<Place> places_;         // of the entries
  std::vector<std::uint64_t> words_;  // of which words_used_ are used
  std::size_t words_used_ = 0;
  std::vector<Call> calls_;
  std::vector<RequestLife> lives_;
  std::int32_t replica_ = kArrival;  // of the latest entry
  Load load_;                        // of all replicas, between the instants that were shown
  TimePoint load_since_ = TimePoint::min();
};

}  // namespace twin
