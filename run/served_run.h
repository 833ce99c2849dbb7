// Requests of the clients of a served run, from its record: to simulate the run, or to make a
// trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/traced_request.h"
#include "run/files/record_file.h"
#include "run/record/summary.h"
#include "run/replay.h"
#include "run/run_control.h"
#include "sched/event.h"

namespace twin::run {

struct ServedRun {
  // In order of arrival. Completed requests have the length of their output, all other requests the
  // length that their clients asked for. Contents are named as the record names blocks.
  std::vector<TracedRequest> requests;
  struct Departure {
    RequestCancelled cancelled;
    TimePoint time;
  };
  // Departures of the requests that did not complete, in order of time.
  std::vector<Departure> departures;
  std::vector<RefusedRequest> refused;
  ReplayResult replay;
  RecordEnd recorded;
  bool complete = true;  // the record has an end
  Summary measured;      // as in summary.json
};

// Reads and replays the record of a run directory, which may be all that a killed run has left.
// `config` is the experiment of the record.
// Throws InputError: there is no record (usage), it is damaged (data).
ServedRun ReadServedRun(const std::filesystem::path& run);

// All requests of the clients in order of time, also the ones that the service refused; the output
// of a refused request has the length that was asked for.
std::vector<TracedRequest> OfferedRequests(const ServedRun& run);

struct ServedComparison {
  std::string name;
  ServedRun served;
  Summary simulated;
};

// Simulates what the clients of a served run did: requests arrive at the recorded times with the
// recorded lengths, and clients that left leave at the recorded times. `changes` (path=value) apply
// to the recorded experiment, such as another cost model. Throws as ReadServedRun and Simulate.
ServedComparison CompareServedRun(const std::filesystem::path& run,
                                  std::span<const std::string> changes, RunControl& control);

// One JSON object: digests, counts, and `metrics`, each with `predicted`, `measured` and
// `error_percent`, as in validation.json.
std::string ServedComparisonJson(const ServedComparison& comparison);

}  // namespace twin::run
