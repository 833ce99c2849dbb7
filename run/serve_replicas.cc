#include "run/serve_replicas.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

#include "core/input_error.h"
#include "core/printable.h"
#include "run/cost_range_watch.h"
#include "run/make_engines.h"
#include "run/record/plan_digest.h"
#include "run/record/recording_world.h"
#include "run/replica_windows.h"
#include "run/stoppable_world.h"
#include "sched/invariant.h"
#include "sched/policy/own_policy.h"
#include "sched/serve.h"
#include "sim/world/emulated_world.h"
#include "sim/world/sim_world.h"

namespace twin::run {
namespace {

// Serves the cluster replica by replica; true if `control` ended the run early.
bool ServeInWindows(ReplicaWindows& windows, const Cluster& cluster, const sim::SimWorld& world,
                    const ExperimentConfig& config, RunControl& control) {
  bool early = false;
  while (!early && windows.ServeWindow()) {
    control.OnProgress(config.name, world.arrived(),
                       static_cast<std::uint64_t>(config.workload.requests));
    early = control.StopRequested();
  }
  windows.ShowServed();
  if (!early) cluster.CheckDrained();
  return early;
}

// Runs `work`, and names the policy of the caller in an exception that it throws.
template <class Work>
void NamingThePolicy(const ExperimentConfig& config, Work work) {
  try {
    work();
  } catch (const InputError&) {
    throw;
  } catch (const InvariantViolation& violation) {
    if (config.own_policy == nullptr) throw;
    const std::string& place = config.own_policy->place;
    throw InvariantViolation(fmt::format("policy {}{}", config.own_policy->name,
                                         place.empty() ? "" : fmt::format(" ({})", place)),
                             violation);
  } catch (const PolicyFailure&) {
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    if (config.own_policy == nullptr) throw;
    throw PolicyFailure(fmt::format("policy {} failed: {}", config.own_policy->name,
                                    Printable(error.what(), kMessageBytesMax)));
  }
}

}  // namespace

bool ServeReplicas(const Deployment& deployment, const ServedWorld& served, RunMetrics& metrics,
                   RunControl& control, int threads) {
  const ExperimentConfig& config = deployment.config;
  CostRangeWatch range(deployment);
  std::vector<RunObserver*> of_cost;
  if (range.needed()) of_cost.push_back(&range);
  std::vector<RunObserver*> observers(metrics.observers().begin(), metrics.observers().end());
  observers.insert(observers.end(), of_cost.begin(), of_cost.end());
  RecordingWorld recorded(served.outer, observers);
  StoppableWorld world(recorded, control, config.name,
                       static_cast<std::uint64_t>(config.workload.requests));
  bool early = false;
  const auto serve = [&](auto& scheduler) {
    NamingThePolicy(config, [&] { Serve(scheduler, world); });
    early =
        world.stopped_early() || (served.emulated != nullptr && served.emulated->stopped_early());
    if (!early) scheduler.CheckDrained();
  };
  if (config.system.replicas == 1) {
    serve(*MakeEngine(deployment));
  } else {
    const std::unique_ptr<Cluster> cluster = MakeCluster(deployment);
    // Windows pass by the outer world.
    const bool separate =
        &served.outer == &served.simulated && ReplicaWindows::CanServe(*cluster, served.simulated);
    if (LogPlayer* const player = separate ? metrics.ReplicaPlayer() : nullptr) {
      of_cost.push_back(&metrics.digest());
      ReplicaWindows windows(*cluster, served.simulated, metrics.tracker(), *player, of_cost,
                             threads);
      NamingThePolicy(config, [&] {
        early = ServeInWindows(windows, *cluster, served.simulated, config, control);
      });
    } else {
      serve(*cluster);
    }
  }
  control.OnProgressEnd();
  range.Report(control);
  return early;
}

}  // namespace twin::run
