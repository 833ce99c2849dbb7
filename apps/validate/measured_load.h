// How the load of a measured run is sent again in a simulation.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/benchmark_run.h"

namespace twin::apps {

// The change to an experiment that takes clients and engine to be at one place.
inline constexpr const char* kWithoutBoundary =
    "system.boundary=request_s { mean_s: 0 kind: constant } response_s { mean_s: 0 kind: constant "
    "} client_reaction_s { mean_s: 0 kind: constant }";

struct Replay {
  std::string text{};                  // "recorded send times"
  std::vector<std::string> changes{};  // to an experiment, as --set takes them
  int draws = 1;                       // of the arrivals; 1: nothing about them is drawn
  bool paired = false;                 // the k-th request is the measured run's
};

struct MeasuredLoad {
  Replay replay;
  std::filesystem::path file;  // of WriteLoad
  // With recorded times and a limit of requests in flight: the same lengths by clients who wait.
  // In `replay`, a slow simulation cannot slow down its clients.
  std::optional<Replay> waiting;
};

// The completed requests, in order of sending, equal times by their lengths.
std::vector<BenchmarkRequest> CompletedOf(std::span<const BenchmarkRequest> requests);

// Whether the lengths of a run of totals are those that its histograms count.
bool HasLengthHistograms(const BenchmarkRun& run);

// Plans the load, whose requests will be in `file` (WriteLoad). `where` comes first in errors.
// Throws InputError (data) for a run with neither times nor a rate nor a limit.
MeasuredLoad PlanLoad(const BenchmarkRun& run, const std::filesystem::path& file,
                      const std::string& where);

// Writes the completed requests as a trace. Turns of a conversation share the content of what came
// before, if their prompts are long enough to repeat it. A run of totals gives requests with the
// lengths that its histograms count, in random pairs of prompt and output, or without them no file.
// `shared` is the share of each prompt, from its beginning, that all requests have in common.
void WriteLoad(const BenchmarkRun& run, const std::filesystem::path& file, double shared = 0);

}  // namespace twin::apps
