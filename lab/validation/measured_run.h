// A real run as its run directory tells it.
#pragma once

#include <filesystem>
#include <vector>

#include "core/step_times.h"
#include "proto/experiment_config.h"
#include "proto/record_file.h"
#include "record/recorded_run.h"

namespace twin::lab {

// Memory grows with the run.
struct MeasuredRun {
  std::filesystem::path path;
  ExperimentConfig config;
  RecordHeader header;
  RecordedRun events;
  std::vector<StepTimes> steps;  // in the order of planning
};

// Fills `run`, which must be new. Throws InputError (usage) if the directory is no complete real
// run with record.pb and parts.csv, (data) naming file and line or frame where one of them is
// damaged.
void ReadMeasuredRun(const std::filesystem::path& directory, MeasuredRun& run);

// Copies a record from where the reader is to its end.
void ReadEvents(RecordReader& reader, RecordedRun& events);

// parts.csv: a line of column names, then a row per step. Throws InputError (data): file, line,
// column, what is wrong.
std::vector<StepTimes> ReadStepTimes(const std::filesystem::path& file);

}  // namespace twin::lab
