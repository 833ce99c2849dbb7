// Real runs of an experiment, their replay, their prediction, and why the two differ.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/validate/validation.h"
#include "config/experiment_config.h"
#include "run/run_control.h"

namespace twin::run {

struct ValidationRequest {
  ExperimentConfig config;
  std::string source;                       // names the experiment in errors
  std::filesystem::path out;                // the folder of the validation
  std::vector<std::filesystem::path> runs;  // earlier real runs to compare; empty: measure new ones
  int repeats = 2;                          // new real runs
  std::vector<std::string> command_line;    // for provenance.json
};

struct ValidationOutcome {
  std::optional<Validation> validation;  // absent where `control` ended the work early
  std::filesystem::path page;            // report.html
};

// Measures `repeats` real runs (or reads `runs`), replays each, simulates the experiment with the
// KV cache that the first run had, compares, and writes the folder `out`. A fitted cost model
// predicts at the speed that the machine had during the runs, if the speed probe was timed in all
// of them and in the profile (machine_speed.h). Clients that give up do so in the simulation after
// the same time. Work that was ended early continues where it stopped when it is called again for
// the same experiment and build. Throws InputError (usage) where the experiment cannot be compared:
// no real world, no cost model, lengths that only the model knows, pipelines, a cost model fitted
// on another machine; and as RunReal and RunSimulation.
ValidationOutcome ValidateExperiment(const ValidationRequest& request, RunControl& control);

}  // namespace twin::run
