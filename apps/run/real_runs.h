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

// An interface, because a build without TWIN_EXEC has a null pointer in its place.
class RealRuns {
 public:
  virtual ~RealRuns() = default;

  // Number of processes of this job; 1 without mpirun.
  [[nodiscard]] virtual std::int32_t launched() const = 0;
  // Rank of this process; 0 decides.
  [[nodiscard]] virtual std::int32_t rank() const = 0;

  // Calls `read` in every process. Where there are several, returns false if one of them failed,
  // after it has said why; alone, exceptions of `read` pass through.
  [[nodiscard]] virtual bool ReadTogether(const std::function<void()>& read) = 0;

  // Serves rank 0 until its run ends; false if the run failed. REQUIRES: rank() > 0, and the world
  // of `config` is real.
  [[nodiscard]] virtual bool Follow(const ExperimentConfig& config) = 0;

  // As run::RunReal.
  virtual run::RunOutcome Run(const ExperimentConfig& config, const std::filesystem::path& out,
                              const std::vector<std::string>& command_line,
                              run::RunControl& control) = 0;
};

// Joins the other processes where mpirun started several. Throws as exec::MpiRanks does.
std::unique_ptr<RealRuns> MakeRealRuns();

}  // namespace twin::apps
