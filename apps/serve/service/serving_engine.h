// A scheduler that serves requests of other threads in a real or an emulated world.
//
// A thread of its own runs the serving loop (sched/serve.h). Other threads hand it requests and
// cancellations, which become events of the world at the next boundary of steps. The run is
// recorded like any other, so that it can be replayed, compared with its simulation, and made a
// trace.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/serve/service/service.h"
#include "config/experiment_config.h"
#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::sim {
class WallClock;
}  // namespace twin::sim

namespace twin::run {

struct ServingOptions {
  // The run directory, which exists from the start: its record.pb grows with the run and is
  // complete up to the latest flush even if the process is killed. Empty: nothing is written.
  std::filesystem::path out = {};
  std::vector<std::string> command_line = {};  // for provenance.json
  // Bounds on requests that no step has carried yet, and on their prompt tokens; more are refused.
  std::int64_t waiting_requests_max = 1024;
  std::int64_t waiting_prompt_tokens_max = 4'000'000;
  // The tokens that an emulated world draws from; empty: the whole vocabulary.
  std::vector<std::int32_t> drawn_tokens = {};
  // End tokens of an emulated model, whose configuration has none. The first one is told as the
  // last token of an answer that ends before max_tokens.
  std::vector<std::int32_t> end_tokens = {};
  // The clock of an emulated world, borrowed; null: the steady clock of this machine.
  sim::WallClock* clock = nullptr;
};

// The functions of Service may be called from any thread, the functions below from one thread.
class ServingEngine : public Service {
 public:
  // Says that the service can be reached: its run directory replaces an earlier one for good.
  // Without this call, the earlier one comes back if the service is destroyed without Finish().
  // Throws std::system_error.
  virtual void Commence() = 0;

  // After Drain(): waits until every accepted request has ended, or until something has ended the
  // service early (a disk that is full). False if that takes longer than `patience`.
  virtual bool AwaitDrained(std::chrono::milliseconds patience) = 0;

  // Ends the service: answers that have not ended do so with EndReason::kAborted. Completes the run
  // directory, if there is one. Throws what ended the service early (InvariantViolation, device
  // errors, InputError of a file that cannot be written), and std::system_error. REQUIRES: called
  // once; the destructor of a service that has commenced calls it otherwise, and drops what it
  // throws.
  virtual RunOutcome Finish() = 0;
};

// Loads the model of a real world, which may take long, and starts to serve. The experiment's
// workload is ignored. `control` hears of warnings and notes, during this call and Finish().
// Throws InputError: the world is simulated; metrics.head_share or tail_share, which are shares of
// a known number of requests; several ranks or CUDA devices' failures as run/real/real_run.h; the
// run directory exists and cannot be replaced (run/run_directory.h).
std::unique_ptr<ServingEngine> StartServing(const ExperimentConfig& config,
                                            const ServingOptions& options, RunControl& control);

}  // namespace twin::run
