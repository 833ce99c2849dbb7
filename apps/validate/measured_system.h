// The system of a measured run: what the command line names, and what the file says of the server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/experiment_options/given_options.h"
#include "config/experiment_config.h"
#include "traces/benchmark_run.h"

namespace twin::apps {

struct SystemQuestion {
  std::string measured;  // the file
  std::string system;    // the experiment file of --system; empty: options
  GivenOptions options;
  std::vector<std::string> changes;  // of --set and --unset
};

// A setting of the system, and who said so.
struct KnownFact {
  std::string text;    // "--tp 2"
  std::string origin;  // "option", or the key in the file
};

// Facts that the simulation leaves out.
struct IgnoredFacts {
  std::vector<KnownFact> others;
  std::vector<KnownFact> drafts;
};

struct MeasuredSystem {
  ExperimentTemplate base;           // its workload is to be replaced
  std::vector<std::string> changes;  // to apply last: those of the command line
  std::vector<KnownFact> facts;
  std::vector<KnownFact> ignored;  // what the file says and the simulation leaves out
  std::vector<KnownFact> drafts;   // those of them that say that the server verified drafts
  std::vector<std::string> contradictions;  // between the file and the simulated system
  bool kv_blocks_known = false;
  bool has_options = false;  // the system comes from options, not from a file
};

// Refuses options that describe a load, which the file does: InputError (usage). Options on what
// the file leaves open are entered into `run`.
void TakeLoadOptions(const SystemQuestion& asked, BenchmarkRun& run);

// Enters the settings of the server that the file names among the options, unless these say
// otherwise, and each into `facts`. `ignored` gets those that are not simulated. REQUIRES: the
// options name the server. Throws InputError (usage) for a setting that makes another deployment,
// and for a value that it does not take.
void TakeSettings(const BenchmarkRun& run, GivenOptions& options, std::vector<KnownFact>& facts,
                  IgnoredFacts& ignored);

// Throws InputError (usage): one line with all that neither the file nor the options say of model,
// device, server and ranks; as ReadExperiment().
MeasuredSystem ReadMeasuredSystem(const SystemQuestion& asked, const BenchmarkRun& run);

// The experiment with another load and further changes. Throws InputError (usage) also for a world
// that is not simulated.
ExperimentConfig ExperimentWith(const MeasuredSystem& system, const std::vector<std::string>& load,
                                const std::vector<std::string>& further = {});

}  // namespace twin::apps
