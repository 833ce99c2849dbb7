// A real run, read from its run directory.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "config/experiment_config.h"
#include "core/step_parts.h"
#include "run/files/record_file.h"
#include "run/record/recorded_run.h"

namespace twin::run {

// Load by other programs during a real run: machine_* of summary.json.
struct RunMachine {
  double steal_share = 0;  // share of the CPU time of all CPUs
  double other_load = 0;   // CPUs kept busy by other processes, on average
  bool disturbed = false;
};

// Mean times of the speed probe during a real run (exec/speed_probe.h): machine_*_probe_us of
// summary.json.
struct RunProbes {
  double decode_s = 0;
  double prefill_s = 0;
};

// Memory grows with the run.
struct MeasuredRun {
  std::filesystem::path path;
  ExperimentConfig config;
  RecordHeader header;
  RecordedRun events;
  std::vector<StepTimes> steps;       // in the order of planning
  std::optional<RunMachine> machine;  // nullopt if the summary does not have it
  std::optional<RunProbes> probes;    // nullopt if the summary does not have them
};

// Fills `run`, which must be empty. Throws InputError: (usage) if the directory is not a complete
// real run with record.pb and parts.csv, (data) naming file and line or frame if one of them is
// damaged.
void ReadMeasuredRun(const std::filesystem::path& directory, MeasuredRun& run);

// Appends the rest of a record to `events`.
void ReadEvents(RecordReader& reader, RecordedRun& events);

// Reads parts.csv: a line of column names, then one row per step. By replica, the replica's steps
// in order; one list for a run with one replica. Throws InputError (data): file, line, column, what
// is wrong.
std::vector<std::vector<StepTimes>> ReadStepTimesByReplica(const std::filesystem::path& file);
// The steps of all replicas in one list, replica by replica. Reads and throws as above.
std::vector<StepTimes> ReadStepTimes(const std::filesystem::path& file);

}  // namespace twin::run
