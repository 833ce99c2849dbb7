// Completing the run directory of a service that was killed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::run {

// Replays the record of a killed service, and writes what the service would have written at its
// end: summary.json, the tables, and a record that has an end. The summary says `interrupted`,
// covers the time of the record, and lacks the process's times and anything else that the record
// does not hold. `control` receives warnings.
//
// Throws InputError: `run` has no record, is complete, or is still being written (usage); the
// record is damaged, or this program decides otherwise than the one that wrote it (data).
RunOutcome FinishRun(const std::filesystem::path& run, const std::vector<std::string>& command_line,
                     RunControl& control);

}  // namespace twin::run
