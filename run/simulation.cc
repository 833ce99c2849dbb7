#include "run/simulation.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "core/check.h"
#include "run/config_warnings.h"
#include "run/lateness_meter.h"
#include "run/output_size.h"
#include "run/part_totals.h"
#include "run/run_directory.h"
#include "run/run_files.h"
#include "run/serve_replicas.h"
#include "run/trace_notes.h"
#include "sched/world.h"
#include "sim/cost/step_cost.h"
#include "sim/world/emulated_world.h"
#include "sim/world/sim_world.h"
#include "sim/world/wall_clock.h"

namespace twin::run {
namespace {

// Stops an emulated world when the caller asks for it, even while the world waits.
class StopWatch {
 public:
  StopWatch(sim::EmulatedWorld& world, const RunControl& control)
      : thread_([&world, &control](const std::stop_token& done) {
          while (!done.stop_requested() && !control.StopRequested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          if (control.StopRequested()) world.Stop();
        }) {}

 private:
  std::jthread thread_;
};

// The experiment's workload in its world. Time zero of an emulated world is the construction.
class WorkloadWorld {
 public:
  WorkloadWorld(const Deployment& deployment, const RunControl& control)
      : source_(MakeWorkload(deployment.config.workload, deployment.workload_seeds, &trace_)) {
    const auto* const config = std::get_if<EmulatedWorldConfig>(&deployment.config.world);
    if (config == nullptr) {
      simulated_.emplace(*source_, *deployment.cost, deployment.world);
      return;
    }
    sim::WakeThisThreadOnTime();
    emulated_.emplace(*source_, *deployment.cost, deployment.world, clock_, config->speed);
    lateness_.emplace(*emulated_, config->speed);
    stop_.emplace(*emulated_, control);
  }

  [[nodiscard]] sim::SimWorld& world() { return emulated_ ? emulated_->simulated() : *simulated_; }
  // Null if the world is not at wall-clock time.
  [[nodiscard]] const sim::EmulatedWorld* emulated() const {
    return emulated_ ? &*emulated_ : nullptr;
  }

  [[nodiscard]] const TraceReport& trace() const { return trace_; }

  [[nodiscard]] RunWatchers With(RunWatchers watchers) {
    if (lateness_) watchers.listeners.push_back(&*lateness_);
    return watchers;
  }
  // Entries that only the summary of an emulated run has.
  [[nodiscard]] Summary More() const {
    Summary summary;
    if (lateness_) lateness_->Summarise(MetricWriter(summary));
    return summary;
  }

 private:
  TraceReport trace_;
  std::unique_ptr<ArrivalSource> source_;
  sim::SteadyWallClock clock_;
  std::optional<sim::SimWorld> simulated_;
  std::optional<sim::EmulatedWorld> emulated_;
  std::optional<LatenessMeter> lateness_;
  std::optional<StopWatch> stop_;  // the last member: its thread borrows emulated_
};

// True if parts.csv of a simulation can be written: one pipeline stage, and a cost model that
// distinguishes parts.
bool HasParts(const sim::StepCost& cost) {
  return cost.stages() == 1 && cost.Parts(StepPlan{}).has_value();
}

// Passes all calls on to the simulated world, and the times of each step to `totals`. Borrows all
// arguments. REQUIRES: HasParts(cost).
class StepPartWriter final : public World {
 public:
  StepPartWriter(sim::SimWorld& inner, const sim::StepCost& cost, PartTotals& totals)
      : inner_(inner), cost_(cost), totals_(totals) {}

  Instant Advance(TimePoint wake_at) override { return inner_.Advance(wake_at); }

  void Launch(const StepPlan& plan) override {
    const sim::DeviceState before =
        inner_.devices().empty() ? sim::DeviceState{} : inner_.devices().front();
    inner_.Launch(plan);
    StepTimes times;
    times.planned = inner_.now();
    times.told = inner_.last_delivery();
    if (inner_.last_stages().empty()) {
      times.started = times.finished = times.told;
    } else {
      const sim::SimWorld::StageSpan& span = inner_.last_stages().front();
      times.started = span.begin;
      times.finished = span.end;
      times.parts = *cost_.Parts(plan, span.begin, before);
      CHECK(times.parts.device() == times.finished - times.started);
    }
    times.parts[StepPart::kSchedule] = times.started - std::max(times.planned, free_);
    times.parts[StepPart::kDelivery] = times.told - times.finished;
    free_ = std::max(free_, times.finished);
    totals_.OnStep(plan.replica, plan.id, times);
  }

 private:
  sim::SimWorld& inner_;
  const sim::StepCost& cost_;
  PartTotals& totals_;
  TimePoint free_ = kTimeZero;  // end of the step before on the device
};

// Serves the workload to its end; true if the run was ended early. `parts` may be null.
bool ServeWorkload(const Deployment& deployment, WorkloadWorld& workload, RunMetrics& metrics,
                   PartTotals* parts, RunControl& control, int threads) {
  sim::SimWorld& simulated = workload.world();
  std::optional<StepPartWriter> part_writer;
  if (parts != nullptr) part_writer.emplace(simulated, *deployment.cost, *parts);
  World& outer = part_writer ? static_cast<World&>(*part_writer) : simulated;
  return ServeReplicas(deployment, {outer, simulated, workload.emulated()}, metrics, control,
                       threads);
}

}  // namespace

RunOutcome Simulate(const Deployment& deployment, RunControl& control, const RunWatchers& watchers,
                    int threads) {
  WorkloadWorld workload(deployment, control);
  RunMetrics metrics(deployment, workload.With(watchers));
  const bool interrupted = ServeWorkload(deployment, workload, metrics, nullptr, control, threads);
  return SumUp(deployment, metrics, workload.More(), interrupted);
}

RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line, RunControl& control,
                         int threads, CostCache* costs) {
  CostCache own;
  if (costs == nullptr) costs = &own;
  const Deployment deployment = Resolve(config, *costs);
  const std::string resolved = WriteResolved(deployment.config);
  for (const std::string& warning : WarningsOf(deployment, costs)) control.OnWarning(warning);
  if (const auto note = LargeOutputNote(deployment.config)) control.OnNote(*note);
  RunDirectory directory(out, &control);
  RunFiles files(deployment, resolved, directory);
  std::optional<PartTotals> parts;
  if (deployment.config.outputs.record && HasParts(*deployment.cost) &&
      deployment.config.system.replicas == 1) {
    parts.emplace(directory.File("parts.csv"));
    parts->DrawOn(files.perfetto());
  }
  WorkloadWorld workload(deployment, control);
  RunMetrics metrics(deployment, workload.With(files.watchers()));
  const bool interrupted =
      ServeWorkload(deployment, workload, metrics, parts ? &*parts : nullptr, control, threads);
  if (parts) parts->Finish();
  files.Finish(metrics);
  RunOutcome outcome = SumUp(deployment, metrics, workload.More(), interrupted);
  ReportLosses(outcome, control);
  if (!interrupted) {
    ReportTrace(deployment.config.workload, workload.trace(), metrics.arrived(), control);
  }
  CompleteDirectory(deployment, resolved, command_line, std::nullopt, outcome, directory);
  return outcome;
}

}  // namespace twin::run
