// An experiment from options: the fields that they set, and those that the program adds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/experiment_options/given_options.h"
#include "config/experiment_config.h"

namespace twin::apps {

struct OptionExperiment {
  std::vector<std::string> changes;            // to an empty experiment, as --set takes them
  std::map<std::string, std::string> reasons;  // by field: why the program chose its value
  std::vector<std::string> open;               // what the user left open: "server", "lengths"
  std::string device_note;                     // "h100 means the SXM board"; empty: nothing to say
  std::string server_note;
  std::vector<std::string> not_simulated;  // flags of the server, "NAME" or "NAME (why)"
  std::vector<std::string> without_effect;
};

// `command` ("run") comes first in errors. Reads the first line of a trace. Throws InputError
// (usage) with the option, what is wrong, what is allowed; (data) if a trace cannot be read.
OptionExperiment ExperimentOf(const GivenOptions& asked, const std::string& command);

// The experiment with the changes of --set and --unset, for further changes. Throws InputError
// (usage).
ExperimentTemplate TemplateOf(const OptionExperiment& experiment,
                              const std::vector<std::string>& changes, const std::string& command);

// The experiment with the changes of --set and --unset. Throws InputError (usage) also where the
// system cannot start or no request fits: with the option that would help.
ExperimentConfig ReadOptions(const OptionExperiment& experiment,
                             const std::vector<std::string>& changes, const GivenOptions& asked,
                             const std::string& command);

// Up to three lines that name options: those of --serve and --bench that are simulated, all that
// have no effect here, and all that are not simulated and may matter.
std::vector<std::string> SortedOptions(const GivenOptions& asked, const OptionExperiment& made);

}  // namespace twin::apps
