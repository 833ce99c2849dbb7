// Variants of a simulation: one part of the model switched off, or one fact about the server wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/deployment.h"

namespace twin::apps {

struct Variant {
  enum class Kind : std::uint8_t {
    kPart,       // switched off
    kStepTimes,  // those of another cost model
    kFact,       // changed
  };
  Kind kind = Kind::kPart;
  std::string name;                  // "boundary"; "half the token budget (1024)"
  std::vector<std::string> changes;  // to the experiment, as --set takes them
};

// The variants that apply to the experiment. The parts are those of checks/fidelity. A variant may
// still have no effect on a run, or be refused by ReadExperiment.
std::vector<Variant> VariantsOf(const ExperimentConfig& config, const run::Deployment& deployment);

}  // namespace twin::apps
