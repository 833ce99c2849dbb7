// Serves replicas one after the other, each for a while, in place of all of them instant by
// instant.
//
// A step of one of a thousand replicas finds its engine, its sequences and its devices in no cache:
// a thousand other steps came between. Where nothing reaches a replica but its own requests, there
// is no need to go back and forth: all requests of a window of time are routed, and then each
// replica is served to the end of the window. That needs a router that does not look at the
// replicas, or one that hears of them with a delay; the window is then no longer than the delay.
//
// What has to be seen in the order of time, the digest and the metrics, is shown at the end of the
// window (record/replica_log.h). Decisions, digest and summary are those of Serve, whatever the
// windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/replica_log.h"
#include "record/request_tracker.h"
#include "record/run_observer.h"
#include "sched/cluster.h"
#include "sim/sim_world.h"

namespace twin::lab {

// Borrows everything.
class AheadServer {
 public:
  // Whether the replicas of this cluster can be served so in this world.
  [[nodiscard]] static bool CanServe(const Cluster& cluster, const sim::SimWorld& world) {
    return cluster.window_max() > Duration{0} && world.replicas_are_separate();
  }

  // `tracker` has `log` as its only listener. `observers` see the plans of a replica in order, and
  // nothing else. REQUIRES: CanServe(cluster, world); nothing has happened in the world.
  AheadServer(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker, ReplicaLog& log,
              std::span<RunObserver* const> observers);

  // Serves the next window; false if nothing is left to happen. REQUIRES: 0 < length <= the
  // cluster's window_max(). Throws as Serve.
  bool ServeWindow(Duration length);
  // The same with a length that lets a replica make about so many steps that the state of the
  // replica is found in the caches, and the log of all replicas, too.
  bool ServeWindow();

 private:
  void RouteArrivals(TimePoint until);
  // Serves the replica up to `until`.
  void ServeReplica(std::int32_t replica, TimePoint until);
  void ServeInstant(std::int32_t replica, TimePoint now, std::span<const Event> arrivals);

  Cluster& cluster_;
  sim::SimWorld& world_;
  RequestTracker& tracker_;
  ReplicaLog& log_;
  std::vector<RunObserver*> observers_;
  std::vector<std::vector<Event>> arrivals_;  // of the window, by replica
  std::vector<TimePoint> goes_on_;            // by replica: when something happens next
  Duration length_{1'000'000};
  std::size_t instants_ = 0;  // in the latest window
};

}  // namespace twin::lab
