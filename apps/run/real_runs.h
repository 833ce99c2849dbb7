// Experiments whose world is real, alone or together with other processes of mpirun.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::apps {

// In a build without TWIN_EXEC, one process and no real run.
class RealRuns {
 public:
  // Joins the other processes where mpirun started several. Throws as exec::MpiRanks does.
  RealRuns();
  ~RealRuns();
  RealRuns(const RealRuns&) = delete;
  RealRuns& operator=(const RealRuns&) = delete;

  [[nodiscard]] std::int32_t launched() const;  // processes of this job; 1 without mpirun
  [[nodiscard]] std::int32_t rank() const;      // of this process; 0 decides

  // Calls `read` in every process. Where there are several, returns false if one of them failed,
  // after it has said why; alone, exceptions of `read` pass through.
  [[nodiscard]] bool ReadTogether(const std::function<void()>& read);

  // Serves rank 0 until its run ends; false if the run failed. REQUIRES: rank() > 0, and the world
  // of `config` is real.
  [[nodiscard]] bool Follow(const ExperimentConfig& config);

  // As run::RunReal. Throws InputError (usage) in a build without TWIN_EXEC.
  run::RunOutcome Run(const ExperimentConfig& config, const std::filesystem::path& out,
                      const std::vector<std::string>& command_line, run::RunControl& control);

 private:
  struct Processes;
  std::unique_ptr<Processes> processes_;  // null if this one is alone
};

}  // namespace twin::apps
