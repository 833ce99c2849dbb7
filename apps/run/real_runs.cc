#include "apps/run/real_runs.h"

#include <variant>

#include "apps/interrupt.h"
#include "exec/comm/agreement.h"
#include "exec/comm/mpi_ranks.h"
#include "run/real/real_run.h"

namespace twin::apps {
namespace {

class RunsOfRanks final : public RealRuns {
 public:
  RunsOfRanks() {
    if (exec::LaunchedRanks() > 1) processes_ = std::make_unique<exec::MpiRanks>();
  }

  [[nodiscard]] std::int32_t launched() const override { return exec::LaunchedRanks(); }
  [[nodiscard]] std::int32_t rank() const override {
    return processes_ == nullptr ? 0 : processes_->world().rank();
  }

  [[nodiscard]] bool ReadTogether(const std::function<void()>& read) override {
    if (processes_ != nullptr) return exec::SucceedTogether(processes_->world(), read);
    read();
    return true;
  }

  [[nodiscard]] bool Follow(const ExperimentConfig& config) override {
    exec::Communicator& group = GroupFor(config);
    // Rank 0 alone answers a signal that all processes get: it still needs this process to end the
    // run.
    const InterruptGuard guard;
    return run::FollowReal(config, group);
  }

  run::RunOutcome Run(const ExperimentConfig& config, const std::filesystem::path& out,
                      const std::vector<std::string>& command_line,
                      run::RunControl& control) override {
    return run::RunReal(config, out, command_line, control,
                        processes_ == nullptr ? nullptr : &GroupFor(config));
  }

 private:
  // The group of all processes, with the time-out of the experiment.
  exec::Communicator& GroupFor(const ExperimentConfig& config) {
    processes_->SetTimeout(std::get<RealWorldConfig>(config.world).rank_timeout);
    return processes_->world();
  }

  std::unique_ptr<exec::MpiRanks> processes_;  // null if this one is alone
};

}  // namespace

std::unique_ptr<RealRuns> MakeRealRuns() { return std::make_unique<RunsOfRanks>(); }

}  // namespace twin::apps
