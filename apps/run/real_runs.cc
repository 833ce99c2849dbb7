#include "apps/run/real_runs.h"

#include <variant>

#include "apps/interrupt.h"
#include "exec/comm/agreement.h"
#include "exec/comm/mpi_ranks.h"
#include "run/real/real_run.h"

namespace twin::apps {

struct RealRuns::Processes {
  exec::MpiRanks ranks;

  // The group of all processes, with the time-out of the experiment.
  exec::Communicator& GroupFor(const ExperimentConfig& config) {
    ranks.SetTimeout(std::get<RealWorldConfig>(config.world).rank_timeout);
    return ranks.world();
  }
};

RealRuns::RealRuns() {
  if (exec::LaunchedRanks() > 1) processes_ = std::make_unique<Processes>();
}

RealRuns::~RealRuns() = default;

std::int32_t RealRuns::launched() const { return exec::LaunchedRanks(); }

std::int32_t RealRuns::rank() const {
  return processes_ == nullptr ? 0 : processes_->ranks.world().rank();
}

bool RealRuns::ReadTogether(const std::function<void()>& read) {
  if (processes_ != nullptr) return exec::SucceedTogether(processes_->ranks.world(), read);
  read();
  return true;
}

bool RealRuns::Follow(const ExperimentConfig& config) {
  exec::Communicator& group = processes_->GroupFor(config);
  // Rank 0 alone answers a signal that all processes get: it still needs this process to end the
  // run.
  const InterruptGuard guard;
  return run::FollowReal(config, group);
}

run::RunOutcome RealRuns::Run(const ExperimentConfig& config, const std::filesystem::path& out,
                              const std::vector<std::string>& command_line,
                              run::RunControl& control) {
  return run::RunReal(config, out, command_line, control,
                      processes_ == nullptr ? nullptr : &processes_->GroupFor(config));
}

}  // namespace twin::apps
