// Logs the events of each replica, so that replicas can be simulated one after the other, each for
// a window of time, or several at once.
//
// Metrics depend on the order of events over all replicas. RequestTrackers follow the replicas in
// the order in which they are simulated, with logs as their listeners. A LogPlayer later passes the
// logged events to the listeners in order of time, as Serve would have done. OnPlanned and
// OnStepEnded alone are passed on at once, replica by replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"
#include "run/record/run_listener.h"

namespace twin {

// The log of a window of time: instants in the order in which they were logged, all instants of one
// replica before the instants of the next one.
struct LogPage {
  // A call of a listener. `life`: position in `lives` of a request that arrived or ended.
  struct Call {
    enum class Kind : std::uint8_t { kArrived, kGaps, kEnded };
    Kind kind{};
    bool by_plans = false;  // caused by the plans of the instant, not by its events
    std::uint32_t life = 0;
    Duration gap{0};
    std::int64_t count = 0;
  };
  // An instant of a replica, or an arrival. Instants of one replica at one time follow each other
  // in rounds: a step without duration is delivered at the time of its launch, after the results
  // and plans of all replicas. Each step has an entry, which holds only what nearly every step
  // needs.
  struct Entry {
    TimePoint time;
    // The first call that the events caused, if `gaps` > 0: OnGaps, which nearly always is all.
    Duration gap{0};
    Load change = {};
    std::uint32_t gaps = 0;
    std::uint32_t rank = 0;  // 2 * round, + 1 for arrivals, which come after results
    std::uint32_t first_call = 0;
    std::uint32_t calls = 0;  // number of calls; the ones caused by events come first
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

// Borrows the listeners, to which it passes planned and ended steps. If several threads write logs,
// these calls come from several threads, all calls of one replica from one thread: listeners keep
// their state of such steps by replica.
class ReplicaLog final : public RunListener {
 public:
  explicit ReplicaLog(std::span<RunListener* const> listeners)
      : listeners_(listeners.begin(), listeners.end()) {}

  // The replica of an arrival that has not been routed yet.
  static constexpr std::int32_t kArrival = -1;

  // Begins an instant of the replica, and ends the instant before it. Calls of the log as a
  // listener belong to the instant's events until BeginPlans(), then to its plans. REQUIRES: the
  // instants of a replica are in the order of time, and on one page all instants of a replica are
  // together.
  void BeginInstant(std::int32_t replica, TimePoint now);
  void BeginPlans() { plans_ = true; }
  // Notes that the instant changed the load of its replica from `before` to `after`.
  void EndInstant(const Load& before, const Load& after);

  // Ends the page and moves it to `page`, whose memory the log reuses for the next page. REQUIRES:
  // replicas came in the order of their indices.
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
  bool plans_ = false;               // calls belong to the latest entry's plans, not its events
  std::int32_t replica_ = kArrival;  // the latest entry's replica
};

}  // namespace twin
