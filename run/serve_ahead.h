// Serves replicas one after the other, each for a while, or several at once on different threads,
// in place of all of them instant by instant.
//
// A step of one of a thousand replicas finds its engine, its sequences and its devices in no cache:
// a thousand other steps came between. Where nothing reaches a replica but its own requests, there
// is no need to go back and forth: all requests of a window of time are routed, and then each
// replica is served to the end of the window. That needs a router that does not look at the
// replicas, or one that hears of them with a delay; the window is then no longer than the delay.
//
// What metrics have to see in the order of time is shown while the next window is served
// (run/record/log_player.h). Decisions, digest and summary are those of Serve, whatever the windows
// and the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "run/record/log_player.h"
#include "run/record/replica_log.h"
#include "run/record/request_tracker.h"
#include "run/record/run_observer.h"
#include "run/thread_team.h"
#include "sched/cluster.h"
#include "sim/world/sim_world.h"

namespace twin::run {

// Borrows everything.
class AheadServer {
 public:
  // Whether the replicas of this cluster can be served so in this world.
  [[nodiscard]] static bool CanServe(const Cluster& cluster, const sim::SimWorld& world) {
    return cluster.window_max() > Duration{0} && world.replicas_are_separate();
  }

  // `tracker` is the run's, in whose place others follow the replicas; `player` shows them.
  // `observers` see the plans of a replica in order, those of different replicas on `threads`
  // threads at once, and nothing else. REQUIRES: CanServe(cluster, world); nothing has happened in
  // the world; threads >= 1.
  AheadServer(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker, LogPlayer& player,
              std::span<RunObserver* const> observers, int threads);
  // Gives `tracker` the listeners of `player` again.
  ~AheadServer() { tracker_.ReplaceListeners(player_.listeners()); }
  AheadServer(const AheadServer&) = delete;
  AheadServer& operator=(const AheadServer&) = delete;

  // Serves the next window; false if nothing is left to happen. REQUIRES: 0 < length <= the
  // cluster's window_max(). Throws as Serve.
  bool ServeWindow(Duration length);
  // The same with a length that lets a replica make about so many steps that the state of the
  // replica is found in the caches, and the log of all replicas, too.
  bool ServeWindow();

  // Shows what has been served and not been shown yet. Call it behind the last window.
  void ShowServed();

 private:
  // What a replica has beside its engine.
  struct Lane {
    std::unique_ptr<sim::SimWorld> world;
    std::unique_ptr<RequestTracker> tracker;
    std::vector<Event> arrivals;     // of the window
    TimePoint goes_on = kTimeNever;  // when something happens next
  };
  // Replicas [first, end), which one thread serves in a window.
  struct Shard {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::unique_ptr<ReplicaLog> log;
  };

  // The requests that arrive before `until` are sent to their replicas' lanes. Their state stays
  // with world_ and tracker_ until the replicas take it over, when their own is in the caches.
  std::span<const Event> RouteArrivals(TimePoint until);
  void ForgetArrivals(std::span<const Event> arrivals);
  void ServeShard(Shard& shard, TimePoint until);
  // Serves the replica up to `until`.
  void ServeReplica(std::int32_t replica, TimePoint until, ReplicaLog& log);
  void ServeInstant(std::int32_t replica, TimePoint now, std::span<const Event> arrivals,
                    ReplicaLog& log);
  [[nodiscard]] TimePoint NextBegin();
  // Moves what the window's logs hold to pages_.
  void TurnPages();

  Cluster& cluster_;
  sim::SimWorld& world_;
  RequestTracker& tracker_;
  LogPlayer& player_;
  std::vector<RunObserver*> observers_;
  std::vector<Lane> lanes_;  // by replica
  std::vector<Shard> shards_;
  ReplicaLog arrivals_log_;
  std::vector<LogPage> pages_;  // of the latest window: of the shards, then of the arrivals
  ThreadTeam team_;
  Duration length_{1'000'000};
  std::size_t instants_ = 0;  // in the latest window
};

}  // namespace twin::run
