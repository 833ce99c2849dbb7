// Notes and warnings for the user about the rows of a trace that a run left out.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "run/run_control.h"
#include "traces/workload.h"

namespace twin::run {

// Call it after a run to its end. Notes how many rows the reader skipped, and warns if the file may
// be cut or if the workload ended before workload.requests had arrived.
inline void ReportTrace(const WorkloadConfig& workload, const TraceReport& report,
                        std::int64_t arrived, RunControl& control) {
  if (workload.trace) {
    const std::string note = NoteText(report.counts, report.note);
    if (!note.empty()) control.OnNote(fmt::format("{}: {}", workload.trace->path, note));
    if (report.may_be_cut) {
      control.OnWarning(
          fmt::format("{}: the last line has no end; it may have been cut within its last number",
                      workload.trace->path));
    }
  }
  if (!workload.trace && !workload.servegen) return;
  if (arrived < workload.requests) {
    control.OnWarning(
        fmt::format("workload.requests is {}, but only {} arrived: the {} ended before{}",
                    workload.requests, arrived, workload.trace ? "trace" : "generator",
                    workload.trace ? "; workload.trace.repeat reads it again" : ""));
  }
}

}  // namespace twin::run
