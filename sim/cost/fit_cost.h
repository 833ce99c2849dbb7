// Turns measurements into the coefficients of a FittedCost, and says how well they predict.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "core/step_parts.h"
#include "sched/step_plan.h"
#include "sim/cost/fitted_config.h"

namespace twin::sim {

// Attention alone, of all layers.
struct AttentionSample {
  StepTotals totals;  // either prefill or decodes
  double seconds = 0;
};

// A whole step, or one step of a run of the real world.
struct StepSample {
  StepTotals totals;
  std::array<double, kStepPartCount> seconds{};  // by part: what stands for its repeats
  std::array<double, kStepPartCount> noise{};    // relative spread between the repeats
  double total_noise = 0;                        // likewise of the sum of device parts
  bool held_out = false;                         // judged on, not fitted on
};

// Times of the host for a step of so many requests and tokens.
struct HostSample {
  double items = 0;
  double tokens = 0;
  double schedule_s = 0;
  double delivery_s = 0;
};

struct FitInput {
  std::vector<CostPoint> gemm_layers;  // ascending
  std::vector<CostPoint> gemm_head;
  std::vector<CostPoint> other;
  std::vector<AttentionSample> attention;
  std::vector<StepSample> steps;
  std::vector<HostSample> host;
  std::vector<CostPoint> copies;  // by blocks
  std::vector<std::uint32_t> decode_buckets;
};

// Relative errors of predictions of the held-out steps, (predicted - measured) / measured.
struct PartError {
  std::int64_t steps = 0;  // whose measured time is not 0
  double median = 0;       // of the absolute errors
  double p90 = 0;
  double bias = 0;   // of the sum over all of them
  double noise = 0;  // median relative spread of their repeats
  double share = 0;  // of the device time
};

struct FitReport {
  std::array<PartError, kStepPartCount> parts;  // of the device parts
  PartError total;
  std::int64_t fitted_steps = 0;
  std::vector<std::string> notes;  // where the steps show less than the model tells apart
};

struct FitResult {
  FittedCostConfig config;  // coefficients and measured range; the rest is the caller's
  FitReport report;
};

// Operations give the shapes; whole steps one factor for each phase and one constant for each part.
// A phase that no step shows takes the other one's factor; phases of which the steps show only one
// to take time get a common one, and a note.
// Relative errors count, and outliers little (least_squares.h).
// Throws InputError (data) where something needed was not measured.
FitResult FitCost(const FitInput& input, const ModelSpec& model);

}  // namespace twin::sim
