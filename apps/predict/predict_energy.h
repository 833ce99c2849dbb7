// Predicts the power of measured deployments that are kept full: at the measured time of a step,
// and at the simulated one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/predict/predict_operations.h"
#include "core/files/csv.h"
#include "run/cost_cache.h"
#include "run/run_control.h"
#include "sim/devices/device_work.h"

namespace twin::run {

struct EnergyPredictionOptions {
  std::uint64_t seed = 1;            // of every simulation
  std::vector<std::string> changes;  // to every experiment, as --set takes them
  int jobs = 0;                      // rows at a time; 0: one per core
  // By which a running request lengthens a step of the measured servers beyond the simulated time:
  // sampling and answers, request by request. The default is the median of 125 rows of ML.ENERGY's
  // leaderboard with batches of 64 and more (experiments/energy/fit).
  double request_step_us = 59.4;
};

struct EnergyPrediction {
  double power_w = 0;              // of all devices, at the measured mean time of a step
  double itl_ms = 0;               // simulated, median, with request_step_us
  double simulated_power_w = 0;    // of all devices, at the simulated mean time of a step
  double output_tokens_per_s = 0;  // simulated, of all devices
  double step_ms = 0;              // measured mean: batch / tokens per second
  sim::DeviceWork work;            // of a mean step, its share of prompts included, of all devices
  std::string refused;             // why there is no prediction, in one line; then all others are 0
};

// The tokens of a prompt that a task is taken to have, as tables of measurements do not say; 0 =
// the task is not known.
std::int64_t AssumedPromptTokens(std::string_view task);

struct EnergyOutcome {
  std::uint64_t rows = 0;
  std::uint64_t refused = 0;
  bool interrupted = false;  // nothing was written
};

// Columns that a table has: id, task, model, gpu, gpus, weights, max_num_seqs, mean_batch,
// mean_output_tokens, output_tokens_per_s.
const std::vector<std::string_view>& EnergyColumns();

// Writes files.in with further columns: predicted_power_w, predicted_itl_ms,
// predicted_power_w_simulated, predicted_output_tokens_per_s, step_ms, bytes, flops,
// activation_bytes, routed_bytes, link_bytes (of a mean step), prompt_tokens (assumed), refused.
// Throws InputError: a table without its columns.
EnergyOutcome PredictEnergy(const OperationTableFiles& files,
                            const EnergyPredictionOptions& options, RunControl& control);

}  // namespace twin::run
