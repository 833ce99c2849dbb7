// Takes down what replicas do, one replica after the other, to be shown in the order of time.
//
// Metrics depend on the order of events over all replicas. Who simulates one replica for a while
// and then the next one, or several at once, lets RequestTrackers follow in that order, with logs
// as their listeners; a LogPlayer then gives the listeners what Serve would have given them, in the
// same order. Only OnPlanned and OnStepEnded pass at once, replica by replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"
#include "run/record/run_listener.h"

namespace twin {

// Instants in the order in which they were taken down: those of one replica after those of another.
struct LogPage {
  // What a listener was told. Of the life: in `lives`, of a request that arrived or ended.
  struct Call {
    enum class Kind : std::uint8_t { kArrived, kGaps, kEnded };
    Kind kind{};
    bool by_plans = false;  // not by the events of the instant
    std::uint32_t life = 0;
    Duration gap{0};
    std::int64_t count = 0;
  };
  // An instant of a replica, or an arrival. Those of one replica at one time follow each other in
  // rounds: a step without duration is delivered at the time of its launch, behind the results and
  // plans of all replicas. There is one for each step: it has only what nearly every step needs.
  struct Entry {
    TimePoint time;
    // What the events told the listeners first, if `gaps` > 0: nearly always these gaps are all.
    Duration gap{0};
    Load change = {};
    std::uint32_t gaps = 0;
    std::uint32_t rank = 0;  // 2 * round + 1 for arrivals, which come behind results
    std::uint32_t first_call = 0;
    std::uint32_t calls = 0;  // those by events first
  };
  static_assert(sizeof(Entry) == 48);

  std::vector<Entry> entries;
  std::vector<Call> calls;
  std::vector<RequestLife> lives;

  // Empties the page but keeps its memory.
  void Clear() {
    entries.clear();
    calls.clear();
    lives.clear();
  }
};

// Borrows the listeners, which hear of planned and ended steps. Where logs are written by several
// threads, these come from several threads, each replica's from one: listeners keep what they know
// of such steps by replica.
class ReplicaLog final : public RunListener {
 public:
  explicit ReplicaLog(std::span<RunListener* const> listeners)
      : listeners_(listeners.begin(), listeners.end()) {}

  // The replica of an arrival that has not been routed yet.
  static constexpr std::int32_t kArrival = -1;

  // Begins an instant of the replica; ends the one before. What the log hears as a listener belongs
  // to its events until BeginPlans(), then to its plans. REQUIRES: the instants of a replica in the
  // order of time, and on one page no replica comes again once another one began.
  void BeginInstant(std::int32_t replica, TimePoint now);
  void BeginPlans() { plans_ = true; }
  // The instant changed the load of its replica from `before` to `after`.
  void EndInstant(const Load& before, const Load& after);

  // Ends the page and leaves it in `page`, with whose memory the log goes on. REQUIRES: replicas
  // came in the order of their indices.
  void Turn(LogPage& page);

  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnPlanned(TimePoint now, const StepPlan& plan) override;
  void OnGaps(TimePoint now, Duration gap, std::int64_t count) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnEnded(const RequestLife& life) override;

 private:
  void AddCall(LogPage::Call call);
  void AddLife(LogPage::Call::Kind kind, const RequestLife& life);

  std::vector<RunListener*> listeners_;
  LogPage page_;
  bool plans_ = false;               // of the latest entry, not its events
  std::int32_t replica_ = kArrival;  // of the latest entry
};

}  // namespace twin
