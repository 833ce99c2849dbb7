// The part of `validate` that compares measured runs of other servers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/validate/measured_system.h"

namespace twin::apps {

struct MeasuredArguments {
  std::vector<std::string> files;   // one, or two snapshots of /metrics
  std::optional<double> between_s;  // the time between the snapshots
  std::vector<std::string> steps;   // files with records of the run's steps
  SystemQuestion question;          // without its file and changes
};

// Declares --measured, which it returns, and the options that describe such a run.
CommandOption AddMeasuredOptions(CommandParser command, const std::vector<std::string>& line,
                                 MeasuredArguments& arguments);

// Simulates the runs in the files, prints the comparison, and writes its folder: `out`, or if that
// is empty, one named after the last file. `changes`: of --set and --unset. Throws InputError.
void CompareMeasuredRuns(const MeasuredArguments& arguments,
                         const std::vector<std::string>& changes, const std::string& out);

// Throws InputError (usage) if an option that describes a measured run was given without one.
void RefuseMeasuredOptions(const MeasuredArguments& arguments);

}  // namespace twin::apps
