// The outcome of a run, and how it is written to a run directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/deployment.h"
#include "run/provenance.h"
#include "run/record/summary.h"
#include "run/run_control.h"
#include "run/run_directory.h"
#include "run/run_metrics.h"

namespace twin::run {

struct RunOutcome {
  Summary summary;
  // The caller ended the run early; the summary covers the time until then.
  bool interrupted = false;
};

// Sums up a run that has ended: its metrics, `more` (entries of the run's own world), the size of
// the KV cache, and what the process has used. Throws InputError (data) if fewer requests came than
// the measured window was cut for.
RunOutcome SumUp(const Deployment& deployment, RunMetrics& metrics, const Summary& more,
                 bool interrupted);

// Warns once if requests were rejected or outputs cut, with count and reason, and if more requests
// arrived than the system could serve.
void ReportLosses(const RunOutcome& outcome, RunControl& control);

// Writes the files of every run directory (the resolved config, provenance.json, summary.json) and
// puts the directory in its place. `real`: for real runs only. Throws std::system_error.
void CompleteDirectory(const Deployment& deployment, const std::string& resolved,
                       const std::vector<std::string>& command_line,
                       const std::optional<RealProvenance>& real, const RunOutcome& outcome,
                       RunDirectory& directory);

}  // namespace twin::run
