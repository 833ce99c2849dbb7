#include "run/real/real_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/hash.h"
#include "exec/comm/agreement.h"
#include "exec/real_world.h"
#include "kernels/sampling.h"
#include "run/available_memory.h"
#include "run/config_warnings.h"
#include "run/machine_load.h"
#include "run/make_engines.h"
#include "run/output_size.h"
#include "run/part_totals.h"
#include "run/provenance.h"
#include "run/real/machine_gpus.h"
#include "run/real/model_device.h"
#include "run/real/real_system.h"
#include "run/record/recording_world.h"
#include "run/record/run_measurements.h"
#include "run/run_directory.h"
#include "run/run_files.h"
#include "run/run_metrics.h"
#include "run/trace_notes.h"
#include "sched/serve.h"

namespace twin::run {
namespace {

// Shows how many requests have left the system.
class DepartureProgress final : public RunObserver {
 public:
  DepartureProgress(RunControl& control, std::string what, std::int64_t total)
      : control_(control), what_(std::move(what)), total_(static_cast<std::uint64_t>(total)) {}

  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (std::holds_alternative<RequestCancelled>(event)) ++departed_;
      const auto* finished = std::get_if<StepFinished>(&event);
      if (finished == nullptr) continue;
      for (const ItemOutcome& outcome : finished->outcomes) {
        if (outcome.finish != FinishReason::kNone) ++departed_;
      }
    }
    control_.OnProgress(what_, departed_, total_);
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    departed_ += plan.rejected.size();
  }

 private:
  RunControl& control_;
  std::string what_;
  std::uint64_t total_;
  std::uint64_t departed_ = 0;
};

// A thread that stops the world when the caller asks for it, also while the world waits, and
// samples the load of the machine once a second.
class RunWatcher {
 public:
  RunWatcher(exec::RealWorld& world, const RunControl& control, MachineLoadMeter& load)
      : thread_([&world, &control, &load](const std::stop_token& done) {
          constexpr int kPollsPerSample = 50;
          int polls = 0;
          while (!done.stop_requested() && !control.StopRequested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (++polls % kPollsPerSample == 0) load.Add(SampleMachine());
          }
          if (control.StopRequested()) world.Stop();
        }) {}

 private:
  std::jthread thread_;
};

// The sampling parameters by request: each request has its own random numbers. Unset for greedy
// sampling.
std::function<kernels::SamplingParameters(RequestId)> SamplingOf(const TokenSamplingConfig& config,
                                                                 std::uint64_t seed) {
  if (config.temperature == 0) return {};
  return [config, key = MixWords(seed, HashText("sampling"))](RequestId id) {
    return kernels::SamplingParameters{.temperature = static_cast<float>(config.temperature),
                                       .top_k = config.top_k,
                                       .top_p = static_cast<float>(config.top_p),
                                       .min_p = static_cast<float>(config.min_p),
                                       .seed = MixWords(key, Index(id))};
  };
}

class PartsListener final : public exec::RealWorldListener {
 public:
  explicit PartsListener(PartTotals& parts) : parts_(parts) {}

  void OnStep(std::int32_t replica, StepId id, const StepTimes& times) override {
    parts_.OnStep(replica, id, times);
  }

 private:
  PartTotals& parts_;
};

exec::RealWorldOptions WorldOptionsOf(const Deployment& deployment, const exec::ModelConfig& model,
                                      exec::RealWorldListener& listener) {
  const ExperimentConfig& config = deployment.config;
  const auto& real = std::get<RealWorldConfig>(config.world);
  return {.max_model_length = deployment.context_tokens_max,
          .named_block_size = KeyTokensOf(deployment),
          .pins_output_lengths = real.pin_output_lengths,
          .end_tokens = model.end_tokens,
          .vocab = model.shape.vocab,
          .seed = config.seed,
          .sampling_of = SamplingOf(real.sampling, config.seed),
          .client_timeout = real.client_timeout,
          .prefill_replicas = config.system.disaggregation
                                  ? config.system.disaggregation->pools.prefill_replicas
                                  : 0,
          .listener = &listener};
}

// The configuration and models, which must be equal on all ranks of a run.
struct Prepared {
  ExperimentConfig config;
  ServedModels served;
};

// The least memory that any rank finds available, so that all ranks get the same result.
std::int64_t MemoryForAll(exec::Communicator& processes) {
  const std::int64_t own = AvailableMemory();
  std::vector<std::int64_t> all(static_cast<std::size_t>(processes.size()));
  processes.AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return *std::min_element(all.begin(), all.end());
}

Prepared Prepare(const ExperimentConfig& asked, std::int64_t memory_bytes) {
  Prepared prepared{ResolveForThisMachine(asked, memory_bytes), {}};
  prepared.served = FindServedModels(prepared.config);
  return prepared;
}

// Prepares all ranks. Collective. nullopt if another rank refuses the experiment; that rank gives
// the reason.
std::optional<Prepared> PrepareTogether(const ExperimentConfig& asked,
                                        exec::Communicator& processes) {
  const std::int64_t memory_bytes = MemoryForAll(processes);
  std::optional<Prepared> prepared;
  const auto prepare = [&] { prepared = Prepare(asked, memory_bytes); };
  if (!exec::SucceedTogether(processes, prepare)) return std::nullopt;
  return prepared;
}

// Prepares rank 0, or the only process.
Prepared PrepareToServe(const ExperimentConfig& asked, exec::Communicator* processes) {
  if (processes == nullptr) {
    // Checked first, before anything is asked of the machine.
    RequireDevice("world.real.device", std::get<RealWorldConfig>(asked.world).device, "cpu");
    return Prepare(asked, AvailableMemory());
  }
  std::optional<Prepared> prepared = PrepareTogether(asked, *processes);
  while (!prepared) processes->Barrier();  // the rank that refuses ends the job
  return *std::move(prepared);
}

// A model on its device, and the deployment whose KV cache it holds.
class LoadedSystem {
 public:
  LoadedSystem(Prepared prepared, RunControl& control, exec::Communicator* processes)
      : alone_(processes == nullptr),
        device_(prepared.config, prepared.served, processes, control),
        deployment_(Resolve(prepared.config)),
        backends_(
            device_.MakeBackends(deployment_.engine, prepared.config.system.model_spec.kv_dtype)),
        probe_(device_.MakeSpeedProbe()) {
    for (const auto& backend : backends_) driven_.push_back(backend.get());
    if (!probe_) return;
    probed_.emplace(*backends_.front(), *probe_);
    driven_.front() = &*probed_;
  }

  [[nodiscard]] const Deployment& deployment() const { return deployment_; }

  // Serves the workload to its end. True if `control` ended it early.
  bool Serve(ArrivalSource& source, RunMetrics& metrics, PartTotals& parts, RunControl& control) {
    if (deployment_.config.system.replicas == 1) {
      return ServeWith(*MakeEngine(deployment_), source, metrics, parts, control);
    }
    return ServeWith(*MakeCluster(deployment_), source, metrics, parts, control);
  }

  // Timings of the speed probe, in order; empty if the device has none.
  [[nodiscard]] std::span<const exec::ProbeSeconds> probes() const {
    return probed_ ? std::span(probed_->samples()) : std::span<const exec::ProbeSeconds>();
  }

  // The load of the machine by other programs during the run; nullopt if unknown. It is unknown
  // with several processes, because each counts the run's other processes as other programs.
  [[nodiscard]] std::optional<MachineLoad> load() const {
    return alone_ ? load_.Result() : std::nullopt;
  }

 private:
  // Scheduler is Engine or Cluster; `scheduler` has served nothing yet.
  template <class Scheduler>
  bool ServeWith(Scheduler& scheduler, ArrivalSource& source, RunMetrics& metrics,
                 PartTotals& parts, RunControl& control) {
    const ExperimentConfig& config = deployment_.config;
    DepartureProgress progress(control, config.name, config.workload.requests);
    std::vector<RunObserver*> observers(metrics.observers().begin(), metrics.observers().end());
    observers.push_back(&progress);
    bool interrupted = false;
    load_.Add(SampleMachine());
    {
      PartsListener listener(parts);
      exec::RealWorld real(source, driven_,
                           WorldOptionsOf(deployment_, device_.model_config(), listener));
      const RunWatcher watcher(real, control, load_);
      RecordingWorld world(real, observers);
      twin::Serve(scheduler, world);
      interrupted = real.stopped_early();
    }
    load_.Add(SampleMachine());
    control.OnProgressEnd();
    if (!interrupted) scheduler.CheckDrained();
    return interrupted;
  }

  bool alone_;
  MachineLoadMeter load_;
  ServingDevice device_;
  Deployment deployment_;
  std::vector<std::unique_ptr<exec::Backend>> backends_;  // one for each replica
  std::unique_ptr<exec::SpeedProbe> probe_;
  std::optional<exec::ProbedBackend> probed_;  // if there is a single backend
  std::vector<exec::Backend*> driven_;
};

// Mean times of the speed probe.
void AddProbes(std::span<const exec::ProbeSeconds> probes, Summary& summary) {
  if (probes.empty()) return;
  exec::ProbeSeconds sum;
  for (const exec::ProbeSeconds& probe : probes) {
    sum.decode += probe.decode;
    sum.prefill += probe.prefill;
  }
  SummariseProbes(MetricWriter(summary), std::ssize(probes), sum.decode, sum.prefill);
}

// Entries that only the summary of a real run has: times by part, and the speed and load of the
// machine.
Summary MoreOf(const LoadedSystem& system, PartTotals& parts, RunControl& control) {
  Summary more = parts.Finish();
  AddProbes(system.probes(), more);
  if (const std::optional<MachineLoad> load = system.load()) {
    SummariseMachine(MetricWriter(more), load->steal_share, load->other_cpus, load->other_cpus_max,
                     load->disturbed());
    if (load->disturbed()) {
      control.OnWarning(fmt::format(
          "the machine was disturbed during the run, which may have taken longer than on "
          "an idle one: {}",
          load->text()));
    }
  }
  return more;
}

}  // namespace

bool FollowReal(const ExperimentConfig& asked, exec::Communicator& processes) {
  const std::optional<Prepared> prepared = PrepareTogether(asked, processes);
  if (!prepared) return false;
  return FollowServing(prepared->config, prepared->served.target, processes);
}

RunOutcome RunReal(const ExperimentConfig& asked, const std::filesystem::path& out,
                   const std::vector<std::string>& command_line, RunControl& control,
                   exec::Communicator* processes) {
  Prepared prepared = PrepareToServe(asked, processes);
  const std::optional<ComputedModel>& draft = prepared.served.draft;
  RealProvenance origin{.weights = prepared.served.target.weights,
                        .draft_weights = draft ? std::optional(draft->weights) : std::nullopt,
                        .gpus = GpusOfRun(asked),
                        .load = {}};
  TraceReport trace;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(asked.workload, asked.seed, &trace);
  if (const auto note = LargeOutputNote(asked)) control.OnNote(*note);
  RunDirectory directory(out, &control);
  LoadedSystem system(std::move(prepared), control, processes);
  const Deployment& deployment = system.deployment();
  for (const std::string& warning : WarningsOf(deployment)) control.OnWarning(warning);
  const std::string resolved = WriteResolved(deployment.config);
  RunFiles files(deployment, resolved, directory);
  std::optional<PartTotals> parts;
  if (deployment.config.outputs.record) {
    parts.emplace(directory.File("parts.csv"), deployment.config.system.replicas);
  } else {
    parts.emplace();
  }
  parts->DrawOn(files.perfetto());
  RunMetrics metrics(deployment, files.watchers());
  const bool interrupted = system.Serve(*source, metrics, *parts, control);
  files.Finish(metrics);
  RunOutcome outcome = SumUp(deployment, metrics, MoreOf(system, *parts, control), interrupted);
  origin.load = system.load();
  ReportLosses(outcome, control);
  if (!interrupted) ReportTrace(asked.workload, trace, metrics.arrived(), control);
  CompleteDirectory(deployment, resolved, command_line, origin, outcome, directory);
  return outcome;
}

}  // namespace twin::run
