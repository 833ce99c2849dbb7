// How well a real run was predicted, and which part of the prediction is responsible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/validation/measured_run.h"
#include "lab/validation/run_curves.h"
#include "record/summary.h"
#include "sim/cost/step_cost.h"

namespace twin::lab {

struct Contribution {
  std::string cause;
  double amount = 0;  // in the metric's unit; positive: makes the prediction too high
};

struct MetricComparison {
  std::string name;  // as in summary.json
  double predicted = 0;
  double measured = 0;  // mean of the real runs
  // (largest - smallest) / mean of the real runs; none of a single one.
  std::optional<double> repeat_noise_percent;
  std::vector<Contribution> attribution;  // amounts sum to predicted - measured

  [[nodiscard]] double error_percent() const { return 100 * (predicted - measured) / measured; }
};

// Steps of one kind, predicted with their composition given (teacher-forced): device times.
struct StepComparison {
  std::string kind;  // all, prefill, decode, mixed
  std::int64_t steps = 0;
  double measured_ms = 0;           // mean
  double predicted_ms = 0;          // mean
  double median_error_percent = 0;  // of the steps' absolute errors
  double p90_error_percent = 0;     // likewise

  [[nodiscard]] double bias_percent() const {
    return 100 * (predicted_ms - measured_ms) / measured_ms;
  }
};

// One part of all steps, per step.
struct PartComparison {
  std::string part;
  double measured_ms = 0;
  double predicted_ms = 0;
};

struct StepPoint {
  double measured_ms = 0;
  double predicted_ms = 0;
  std::size_t kind = 0;  // of kStepKinds
};

constexpr const char* kStepKinds[] = {"prefill", "decode", "mixed"};

struct Validation {
  std::string name;
  std::string policy;
  std::string digest;        // of the first real run
  bool digest_equal = true;  // of every real run and its replay
  std::string difference;    // the first differing plan, for people
  std::int64_t completed = 0;
  std::int64_t runs = 0;
  std::vector<MetricComparison> metrics;
  std::vector<StepComparison> steps;
  std::vector<PartComparison> parts;  // empty where the cost model knows no parts
  std::vector<StepPoint> points;      // a step each, of the first run
  std::vector<RunCurves> measured;    // a real run each
  RunCurves predicted;
};

// Compares complete real runs of one experiment with its free simulation, given as `simulated` and
// its summary. Replays every run. `cost` is the simulation's.
// Cost: some 2^7 passes over each run's record. Throws InputError (data) if a run's files do not
// belong together.
Validation Validate(std::span<const MeasuredRun* const> runs, const RecordedRun& simulated,
                    const sim::StepCost& cost);

}  // namespace twin::lab
