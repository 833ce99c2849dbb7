#include "lab/real/real_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "exec/comm/agreement.h"
#include "exec/real_world.h"
#include "lab/real/available_memory.h"
#include "lab/real/model_device.h"
#include "lab/real/real_system.h"
#include "record/part_rows.h"
#include "record/recording_world.h"
#include "sched/serve.h"

namespace twin::lab {
namespace {

// Where the time of all steps went, for parts.csv and the summary.
class PartsOfRun final : public exec::RealWorldListener {
 public:
  // Opens the file if the experiment asks for it.
  PartsOfRun(const OutputsConfig& outputs, const RunDirectory& directory) {
    if (!outputs.record) return;
    path_ = directory.File("parts.csv");
    file_.open(path_, std::ios::binary);
    RequireGood();
    rows_.emplace(file_);
  }

  void OnStep(StepId id, const StepTimes& times) override {
    if (rows_) rows_->Add(id, times);
    ++steps_;
    for (std::size_t i = 0; i < kStepPartCount; ++i) sums_.times[i] += times.parts.times[i];
  }

  // Closes the file. A mean of no steps is left out.
  Summary Finish() {
    if (rows_) {
      file_.flush();
      RequireGood();
    }
    Summary means;
    if (steps_ == 0) return means;
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      means.Set("mean_step_" + std::string(kStepPartNames[i]) + "_ms",
                Milliseconds(sums_.times[i]) / static_cast<double>(steps_));
    }
    return means;
  }

 private:
  void RequireGood() const {
    if (!file_) throw std::system_error(errno, std::generic_category(), path_.string());
  }

  std::filesystem::path path_;
  std::ofstream file_;
  std::optional<PartRows> rows_;
  std::int64_t steps_ = 0;
  StepParts sums_;
};

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

// Stops the world when the caller asks for it, also while the world waits.
class StopWatch {
 public:
  StopWatch(exec::RealWorld& world, const RunControl& control)
      : thread_([&world, &control](const std::stop_token& done) {
          while (!done.stop_requested() && !control.StopRequested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          if (control.StopRequested()) world.Stop();
        }) {}

 private:
  std::jthread thread_;
};

exec::RealWorldOptions WorldOptionsOf(const ExperimentConfig& config, const PolicyTraits& traits,
                                      const exec::ModelConfig& model,
                                      exec::RealWorldListener& listener) {
  const auto& real = std::get<RealWorldConfig>(config.world);
  return {.max_model_length = ContextTokensMax(config),
          .named_block_size = traits.caches_prefixes ? config.system.memory.block_size : 0,
          .pins_output_lengths = real.pin_output_lengths,
          .end_tokens = model.end_tokens,
          .vocab = model.shape.vocab,
          .seed = config.seed,
          .client_timeout = real.client_timeout,
          .listener = &listener};
}

// What all ranks of a run need to know alike.
struct Prepared {
  ExperimentConfig config;
  ServedModel served;
};

// The least that any rank finds available, so that all come to the same result.
std::int64_t MemoryForAll(exec::Communicator& processes) {
  const std::int64_t own = AvailableMemory();
  std::vector<std::int64_t> all(static_cast<std::size_t>(processes.size()));
  processes.AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return *std::min_element(all.begin(), all.end());
}

Prepared Prepare(const ExperimentConfig& asked, std::int64_t memory_bytes) {
  Prepared prepared{OnThisMachine(asked, memory_bytes), {}};
  prepared.served = ServedModelOf(prepared.config);
  return prepared;
}

// Collective. Nothing where another rank refuses it and says why.
std::optional<Prepared> PrepareTogether(const ExperimentConfig& asked,
                                        exec::Communicator& processes) {
  const std::int64_t memory_bytes = MemoryForAll(processes);
  std::optional<Prepared> prepared;
  const auto prepare = [&] { prepared = Prepare(asked, memory_bytes); };
  if (!exec::SucceedTogether(processes, prepare)) return std::nullopt;
  return prepared;
}

// As rank 0, or as the only process.
Prepared PrepareToServe(const ExperimentConfig& asked, exec::Communicator* processes) {
  if (processes == nullptr) {
    // Before anything is asked of the machine.
    RequireDevice("world.real.device", std::get<RealWorldConfig>(asked.world).device, "CPU");
    return Prepare(asked, AvailableMemory());
  }
  std::optional<Prepared> prepared = PrepareTogether(asked, *processes);
  while (!prepared) processes->Barrier();  // the rank that refuses ends the job
  return *std::move(prepared);
}

}  // namespace

bool FollowReal(const ExperimentConfig& asked, exec::Communicator& processes) {
  const std::optional<Prepared> prepared = PrepareTogether(asked, processes);
  if (!prepared) return false;
  return FollowServing(prepared->config, prepared->served, processes);
}

RunOutcome RunReal(const ExperimentConfig& asked, const std::filesystem::path& out,
                   const std::vector<std::string>& command_line, RunControl& control,
                   exec::Communicator* processes) {
  auto [config, served] = PrepareToServe(asked, processes);
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config.workload, config.seed);
  RunDirectory directory(out);
  ServingDevice device(config, served, processes, control);
  const SystemConfig& system = config.system;
  const EngineConfig engine_config =
      EngineConfigOf(config, sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                                 system.parallelism, system.memory));
  const std::unique_ptr<exec::Backend> backend =
      device.MakeBackend(engine_config, system.model_spec.kv_dtype);
  const std::string resolved = WriteResolved(config);

  Engine engine(engine_config, MakePolicy(config.policy, engine_config.kv));
  const PolicyTraits& traits = engine.policy().traits();
  RunObservers observers(config, engine_config, traits, resolved, directory);
  PartsOfRun parts(config.outputs, directory);
  RunEnd end;
  {
    exec::RealWorld real(*source, *backend,
                         WorldOptionsOf(config, traits, device.model_config(), parts));
    const StopWatch watch(real, control);
    DepartureProgress progress(control, config.name, config.workload.requests);
    std::vector<RunObserver*> list(observers.list().begin(), observers.list().end());
    list.push_back(&progress);
    RecordingWorld world(real, list);
    Serve(engine, world);
    end.interrupted = real.stopped_early();
  }
  control.OnProgressEnd();
  if (!end.interrupted) engine.CheckDrained();
  end.more = parts.Finish();
  return CompleteRun(config, engine_config, resolved, command_line, end, observers, directory);
}

}  // namespace twin::lab
