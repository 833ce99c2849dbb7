// Predicts the latencies of measured deployments: one simulation per row of a table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/predict/predict_operations.h"
#include "apps/predict/serving_row.h"
#include "run/cost_cache.h"
#include "run/run_control.h"

namespace twin::run {

struct ServingPredictionOptions {
  std::uint64_t seed = 1;            // of every row
  std::vector<std::string> changes;  // to every experiment, as --set takes them
  int jobs = 0;                      // rows at a time; 0: one per core
  // Where the experiment of each row is written as ID.textproto; empty: nowhere.
  std::filesystem::path experiments;
};

struct ServingPrediction {
  double ttft_ms = 0;              // mean over requests
  double tpot_ms = 0;              // mean over requests; NaN: no request has a second token
  double output_tokens_per_s = 0;  // of the whole deployment
  std::int64_t devices = 0;
  std::string refused;  // why there is no prediction, in one line; then the others are 0
  std::vector<std::string> unused;  // flags of the server without a meaning here
};

// Simulates the deployment of one row (serving_experiment.h). Throughput follows from the
// latencies, as in tables of measurements: users x tokens / (TTFT + (tokens - 1) x TPOT), with the
// mean tokens of an output. Rows that cannot be simulated are refused; no InputError is thrown.
ServingPrediction PredictServingRow(const ServingRow& row, const ServingPredictionOptions& options,
                                    CostCache& costs, RunControl& control);

struct ServingOutcome {
  std::uint64_t rows = 0;     // of the table
  std::uint64_t kept = 0;     // that the output already had
  std::uint64_t refused = 0;  // of all that are done
  std::uint64_t done = 0;     // with those that were kept
  bool interrupted = false;
};

// Predicts the rows of files.in and writes files.out: id, ttft_ms, tpot_ms, output_tokens_per_s,
// devices, refused, input, in the order of the table. `input` is a hash of the row, the options and
// the build: a row of files.out with an equal one is kept, and not simulated again. The output is
// renewed while rows finish, and holds all finished rows after an interruption.
// Throws InputError: a table without its columns or with an id twice, and an output that exists and
// holds something else.
ServingOutcome PredictServing(const OperationTableFiles& files,
                              const ServingPredictionOptions& options, RunControl& control);

}  // namespace twin::run
