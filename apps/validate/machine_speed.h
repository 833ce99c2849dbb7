// The speed of the machine during real runs, relative to its speed while a cost model was measured.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "run/measured_run.h"
#include "sim/cost/fitted_config.h"

namespace twin::run {

// Ratios of times: 1.1 means that the runs took 10 % longer.
struct MachineSpeed {
  double decode_slowdown = 1;
  double prefill_slowdown = 1;
};

// The mean over the runs, by the speed probe. nullopt if a run or the cost model has no probe.
std::optional<MachineSpeed> SpeedDuring(const std::vector<std::unique_ptr<MeasuredRun>>& runs,
                                        const sim::FittedCostConfig& cost);

}  // namespace twin::run
