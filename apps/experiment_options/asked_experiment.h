// The experiment of `run` and `resolve`: a file, or options.
#pragma once

#include <string>
#include <vector>

#include "apps/experiment_options/given_options.h"
#include "apps/experiment_options/option_experiment.h"
#include "apps/options.h"
#include "config/experiment_config.h"

namespace twin::apps {

// Refuses an option beside a file, and says how to change the file's field.
[[noreturn]] void RefuseBoth(const std::string& verb, const GivenOption& option);

class AskedExperiment {
 public:
  // Declares EXPERIMENT, --set and --unset, and the options in the place of EXPERIMENT if `line`,
  // the command line, may name one. `verb` is the name of the command. This object must outlive the
  // parsing.
  void AddTo(CommandParser command, const std::string& verb, const std::vector<std::string>& line);

  // Throws InputError (usage) unless there is either a file, perhaps with --policy, or options, and
  // as ReadExperiment().
  [[nodiscard]] ExperimentConfig Read();

  // The experiment with further changes, as --set takes them. Several threads may call it.
  // REQUIRES: Read(). Throws as Read().
  [[nodiscard]] ExperimentConfig With(const std::vector<std::string>& more) const;

  [[nodiscard]] bool from_options() const { return file_.empty(); }
  // The options' experiment. REQUIRES: Read(); empty for a file.
  [[nodiscard]] const OptionExperiment& made() const { return made_; }
  // Lines that sort the options (option_experiment.h). REQUIRES: Read().
  [[nodiscard]] std::vector<std::string> SortedOptions() const {
    return apps::SortedOptions(options_, made_);
  }

  // The fields that are set, with a comment for each that the program chose. Reading it gives the
  // experiment again.
  [[nodiscard]] std::string Text(const ExperimentConfig& config) const;

 private:
  [[nodiscard]] ExperimentConfig ReadFile(const std::vector<std::string>& more) const;

  std::string verb_;
  std::string file_;
  GivenOptions options_;
  std::vector<std::string> changes_;
  OptionExperiment made_;
};

}  // namespace twin::apps
