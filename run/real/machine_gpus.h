// The GPUs of this machine that a run takes, for its provenance.
#pragma once

#include <optional>

#include "config/experiment_config.h"
#include "run/provenance.h"

namespace twin::run {

// Probes the machine's CUDA devices; ranks take them in order. nullopt if the run is on the CPU.
// REQUIRES: the world of `config` is real.
std::optional<MachineGpus> GpusOfRun(const ExperimentConfig& config);

}  // namespace twin::run
