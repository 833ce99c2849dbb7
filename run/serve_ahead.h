// Simulates each replica for a window of time before the next replica, which keeps its state in the
// CPU's caches. Several threads may simulate different replicas at once.
//
// Instant by instant, a step of one of a thousand replicas finds its engine, its sequences and its
// devices in no cache: a thousand other steps came between. If nothing reaches a replica but its
// own requests, all requests of a window of time can be routed first, and then each replica can be
// served to the end of the window. This needs a router that does not look at the replicas, or one
// that learns of their state with a delay; the window is then no longer than the delay.
//
// Metrics that need events in order of time receive them while the next window is served
// (run/record/log_player.h). Decisions, digest and summary equal the ones of Serve, whatever the
// windows and the number of threads.
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
  // Whether the replicas of this cluster can be served in windows in this world.
  [[nodiscard]] static bool CanServe(const Cluster& cluster, const sim::SimWorld& world) {
    return cluster.window_max() > Duration{0} && world.replicas_are_separate();
  }

  // `tracker` is the run's; a tracker for each replica takes its place while the replica is served.
  // `player` passes the logged events on. `observers` see plans only: of one replica in order, of
  // different replicas on `threads` threads at once. REQUIRES: CanServe(cluster, world); nothing
  // has happened in the world; threads >= 1.
  AheadServer(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker, LogPlayer& player,
              std::span<RunObserver* const> observers, int threads);
  // Gives `tracker` the listeners of `player` again.
  ~AheadServer() { tracker_.ReplaceListeners(player_.listeners()); }
  AheadServer(const AheadServer&) = delete;
  AheadServer& operator=(const AheadServer&) = delete;

  // Serves the next window; false if nothing is left to happen. REQUIRES: 0 < length <= the
  // cluster's window_max(). Throws as Serve.
  bool ServeWindow(Duration length);
  // Serves a window whose length is adapted so that both the state of a replica and the log of all
  // replicas stay in the caches.
  bool ServeWindow();

  // Passes the events of the latest window to the listeners. Call it after the last window.
  void ShowServed();

 private:
  // State of a replica beside its engine.
  struct Lane {
    std::unique_ptr<sim::SimWorld> world;
    std::unique_ptr<RequestTracker> tracker;
    std::vector<Event> arrivals;     // in the window
    TimePoint goes_on = kTimeNever;  // when something happens next
  };
  // Replicas [first, end), which one thread serves in a window.
  struct Shard {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::unique_ptr<ReplicaLog> log;
  };

  // Routes the requests that arrive before `until`. Their state stays in world_ and tracker_ until
  // the replica takes it over, when the replica's own state is in the caches.
  std::span<const Event> RouteArrivals(TimePoint until);
  void ForgetArrivals(std::span<const Event> arrivals);
  void ServeShard(Shard& shard, TimePoint until);
  // Serves the replica up to `until`.
  void ServeReplica(std::int32_t replica, TimePoint until, ReplicaLog& log);
  void ServeInstant(std::int32_t replica, TimePoint now, std::span<const Event> arrivals,
                    ReplicaLog& log);
  [[nodiscard]] TimePoint NextBegin();
  // Moves the window's logs to pages_.
  void TurnPages();

  Cluster& cluster_;
  sim::SimWorld& world_;
  RequestTracker& tracker_;
  LogPlayer& player_;
  std::vector<RunObserver*> observers_;
  std::vector<Lane> lanes_;  // by replica
  std::vector<Shard> shards_;
  ReplicaLog arrivals_log_;
  std::vector<LogPage> pages_;  // of the latest window: one per shard, then the arrivals
  ThreadTeam team_;
  Duration length_{1'000'000};
  std::size_t instants_ = 0;  // in the latest window
};

}  // namespace twin::run
