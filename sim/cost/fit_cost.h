// The fit: turns measurements of one model on one machine into the coefficients of a FittedCost.
//
// Idea: an operation measured alone shows how its time grows with size, because it can be measured
// at many sizes and without disturbance. It does not show the level: inside a step, caches are warm
// or cold in another way and kernels run back to back. So each part takes its shape from the
// operations alone and its level from whole steps. GEMMs and attention get one factor for decode
// steps and one for steps with prefill, norms and activations get one factor, and each part gets a
// constant. Build, sampling, schedule and delivery are linear in requests and tokens.
//
// Method: non-negative least squares of relative errors with Huber weights (least_squares.h).
// Relative, since a run has many small steps and few large ones, and both should be predicted
// equally well; non-negative, since a negative coefficient predicts nonsense outside the measured
// sizes. Vidur (Agrawal et al., MLSys 2024) also predicts steps from operations measured alone; the
// levels taken from whole steps are an addition of this project.
//
// Easy to get wrong: the report must use steps that were held out from the fit. A factor fitted on
// steps of one phase says nothing about the other phase. Shapes come from the fastest round of an
// operation, but levels from the mean over rounds, because means are what is predicted. A device
// that pads steps (sched/computed_rows.h) must be fitted with the rows that it computes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "core/step_parts.h"
#include "sched/step_plan.h"
#include "sim/cost/fitted_config.h"

namespace twin::sim {

// Attention measured alone, all layers together.
struct AttentionSample {
  StepTotals totals;  // of prefill only, or of decodes only
  double seconds = 0;
};

// A whole step, measured alone or in a real run.
struct StepSample {
  StepTotals totals;
  std::array<double, kStepPartCount> seconds{};  // by part; mean of the repeats
  // By part, the relative spread of the repeats; nothing of a single measurement.
  std::array<std::optional<double>, kStepPartCount> noise{};
  std::optional<double> total_noise = {};  // the same for the sum of the device parts
  bool held_out = false;                   // used for the report, not for the fit
};

// Host times of steps with this number of requests and tokens.
struct HostSample {
  double items = 0;
  double tokens = 0;
  double schedule_s = 0;
  double delivery_s = 0;
};

struct FitInput {
  std::vector<CostPoint> gemm_layers;  // by tokens, ascending
  std::vector<CostPoint> gemm_head;    // by rows of logits, ascending
  std::vector<CostPoint> other;        // by tokens, ascending
  std::vector<AttentionSample> attention;
  std::vector<StepSample> steps;
  std::vector<HostSample> host;
  std::vector<CostPoint> copies;              // by blocks
  std::vector<std::uint32_t> decode_buckets;  // of the device (sched/computed_rows.h)
};

// Relative errors of predictions of the held-out steps, (predicted - measured) / measured.
struct PartError {
  std::int64_t steps = 0;       // with a measured time above 0
  double median = 0;            // of the absolute errors
  double p90 = 0;               // of the absolute errors
  double bias = 0;              // error of the sum over all steps
  std::optional<double> noise;  // median relative spread of the repeats; of single ones unknown
  double share = 0;             // of the part in the device time
};

struct FitReport {
  std::array<PartError, kStepPartCount> parts;  // of the device parts
  PartError total;
  std::int64_t fitted_steps = 0;
  std::vector<std::string> notes;  // one line for each pair of factors that had to be merged
};

struct FitResult {
  FittedCostConfig config;  // coefficients and measured range; the caller fills in the rest
  FitReport report;
};

// If the steps cover only one phase, its factor is used for both. If the steps of one phase do not
// grow with the operations measured alone, both phases get one common factor, and the report a
// note. Throws InputError (data) naming what was not measured.
FitResult FitCost(const FitInput& input, const ModelSpec& model);

}  // namespace twin::sim
