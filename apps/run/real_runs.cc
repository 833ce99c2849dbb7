#include "apps/run/real_runs.h"

#include <variant>

#include "apps/interrupt.h"
#include "exec/comm/agreement.h"
#include "exec/comm/mpi_ranks.h"
#include "run/real/real_run.h"

namespace twin::apps {

struct RealRuns::Processes {
  exec::MpiRanks ranks;
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
  processes_->ranks.SetTimeout(std::get<RealWorldConfig>(config.world).rank_timeout);
  // A signal that all processes get is rank 0's to answer: it still needs this one to end the run.
  const InterruptGuard guard;
  return run::FollowReal(config, processes_->ranks.world());
}

run::RunOutcome RealRuns::Run(const ExperimentConfig& config, const std::filesystem::path& out,
                              const std::vector<std::string>& command_line,
                              run::RunControl& control) {
  if (processes_ == nullptr) return run::RunReal(config, out, command_line, control, nullptr);
  processes_->ranks.SetTimeout(std::get<RealWorldConfig>(config.world).rank_timeout);
  return run::RunReal(config, out, command_line, control, &processes_->ranks.world());
}

}  // namespace twin::apps
