#include "run/run_outcome.h"

#include <fmt/format.h>

#include <sstream>

#include "core/input_error.h"
#include "run/process_use.h"
#include "run/record/loss_warning.h"
#include "run/record/overload_meter.h"
#include "run/record/run_measurements.h"
#include "run/record/slot_meter.h"

namespace twin::run {
namespace {

// Throws if fewer requests arrived than workload.requests, from which the measured window follows.
void RequireWholeWindow(const ExperimentConfig& config, std::int64_t arrived) {
  const RunMetricsConfig& metrics = config.metrics;
  if (metrics.head_share + metrics.tail_share == 0 || arrived >= config.workload.requests) return;
  throw InputError(InputError::Kind::kData,
                   metrics.tail_share > 0 ? "metrics.tail_share" : "metrics.head_share",
                   fmt::format("is a share of workload.requests ({}), but only {} arrived; "
                               "allowed: workload.requests up to that number",
                               config.workload.requests, arrived));
}

}  // namespace

RunOutcome SumUp(const Deployment& deployment, RunMetrics& metrics, const Summary& more,
                 bool interrupted) {
  if (!interrupted) RequireWholeWindow(deployment.config, metrics.arrived());
  RunOutcome outcome{metrics.Summarise(), interrupted};
  Summary& summary = outcome.summary;
  const MetricWriter out(summary);
  SummariseBlocks(out, deployment.engine.kv.blocks);
  for (const SummaryEntry& entry : more.entries()) summary.Set(entry.name, entry.value);
  const ProcessUse use = UseOfThisProcess();
  SummariseEnd(out, interrupted, use.cpu_seconds, use.peak_rss_mib);
  return outcome;
}

void ReportLosses(const RunOutcome& outcome, RunControl& control) {
  for (const std::string& warning :
       {LossWarning(outcome.summary), OverloadWarning(outcome.summary),
        BurstWarning(outcome.summary), SlotsWarning(outcome.summary)}) {
    if (!warning.empty()) control.OnWarning(warning);
  }
}

void CompleteDirectory(const Deployment& deployment, const std::string& resolved,
                       const std::vector<std::string>& command_line,
                       const std::optional<RealProvenance>& real, const RunOutcome& outcome,
                       RunDirectory& directory) {
  directory.WriteText("config.resolved.textproto", resolved);
  directory.WriteText("provenance.json",
                      ProvenanceJson(deployment.config, resolved, command_line, real));
  std::ostringstream json;
  WriteJson(json, outcome.summary);
  directory.WriteText("summary.json", json.str());
  directory.Commit();
}

}  // namespace twin::run
