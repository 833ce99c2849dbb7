// What clients asked of a served run, from its record: to simulate it, and to make it a trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/record_file.h"
#include "core/traced_request.h"
#include "run/record/summary.h"
#include "run/replay.h"
#include "run/run_control.h"
#include "sched/event.h"

namespace twin::run {

struct ServedRun {
  // In order of arrival. Output lengths are those of completed requests; others have the length
  // that their clients asked for. Contents are named as the record names blocks.
  std::vector<TracedRequest> requests;
  struct Departure {
    RequestCancelled cancelled;
    TimePoint time;
  };
  // Of requests that did not complete, in order of time.
  std::vector<Departure> departures;
  std::vector<RefusedRequest> refused;
  ReplayResult replay;
  RecordEnd recorded;
  bool complete = true;  // the record has an end
  Summary measured;      // as of summary.json
};

// Reads the record of a run directory, of which a killed run may have left no more, and decides it
// again. `config` is the experiment of the record.
// Throws InputError: there is no record (usage), it is damaged (data).
ServedRun ReadServedRun(const std::filesystem::path& run);

// All that clients asked for, in order of time: with the requests that the service refused, whose
// output has the length that was asked for.
std::vector<TracedRequest> OfferedRequests(const ServedRun& run);

struct ServedComparison {
  std::string name;
  ServedRun served;
  Summary simulated;
};

// Simulates what the clients of a served run did: the same requests at the same times, of the same
// lengths, and those who left leave at the same times. `changes` (path=value) apply to the recorded
// experiment, such as another cost model. Throws as ReadServedRun and Simulate.
ServedComparison CompareServedRun(const std::filesystem::path& run,
                                  std::span<const std::string> changes, RunControl& control);

// One JSON object: digests, counts, and `metrics`, of each `predicted`, `measured` and
// `error_percent`, as in validation.json.
std::string ServedComparisonJson(const ServedComparison& comparison);

}  // namespace twin::run
