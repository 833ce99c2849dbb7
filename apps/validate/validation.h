// How well real runs were predicted, and which parts of the prediction are responsible for the
// error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/validate/attribution.h"
#include "apps/validate/machine_speed.h"
#include "core/time.h"
#include "run/measured_run.h"
#include "run/record/run_listener.h"
#include "run/record/summary.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

struct Contribution {
  std::string cause;
  double amount = 0;  // in the metric's unit; positive: raises the prediction above the measurement
};

struct MetricComparison {
  std::string name;  // as in summary.json
  double predicted = 0;
  double measured = 0;  // mean of the real runs
  // 100 x (largest - smallest) / mean of the real runs; nullopt for a single run.
  std::optional<double> repeat_noise_percent;
  std::vector<Contribution> attribution;  // amounts sum to predicted - measured
  // Part of `predicted`: what the machine's speed during the runs, against its speed during the
  // profile, adds to the prediction; nullopt if the speed was not measured.
  std::optional<double> machine_speed = std::nullopt;

  [[nodiscard]] double error_percent() const { return 100 * (predicted - measured) / measured; }
};

// Device times of steps of one kind, predicted for the recorded compositions (teacher forcing).
struct StepComparison {
  std::string kind;  // all, prefill, decode, mixed
  std::int64_t steps = 0;
  double measured_ms = 0;           // mean
  double predicted_ms = 0;          // mean
  double median_error_percent = 0;  // of the steps' absolute errors
  double p90_error_percent = 0;     // of the steps' absolute errors

  [[nodiscard]] double bias_percent() const {
    return 100 * (predicted_ms - measured_ms) / measured_ms;
  }
};

// One part of the steps' time, averaged over all steps.
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

// How requests ended in runs whose clients give up.
struct EndingComparison {
  Duration client_timeout{0};
  Endings predicted;
  std::vector<Endings> measured;  // one per real run
};

constexpr const char* kStepKinds[] = {"prefill", "decode", "mixed"};

// The data of the figures of a report: latencies of the requests, and load over time.
class RunCurves : public RunListener {
 public:
  struct LoadPoint {
    double seconds = 0;  // time from which the load had this value
    Load load;
  };

  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // Latencies of completed requests in the measured window, in the order of completion.
  [[nodiscard]] const std::vector<double>& ttft_ms() const { return ttft_ms_; }
  [[nodiscard]] const std::vector<double>& tpot_ms() const { return tpot_ms_; }
  [[nodiscard]] const std::vector<double>& e2el_ms() const { return e2el_ms_; }
  [[nodiscard]] const std::vector<LoadPoint>& load() const { return load_; }

 private:
  std::vector<double> ttft_ms_;
  std::vector<double> tpot_ms_;  // of requests with at least two tokens
  std::vector<double> e2el_ms_;
  std::vector<LoadPoint> load_;
};

struct Validation {
  std::string name;
  std::string policy;
  std::string digest;          // of the first real run
  bool digest_equal = true;    // of every real run and its replay
  std::string difference;      // the first differing plan as text
  std::int64_t completed = 0;  // in the first real run
  std::int64_t runs = 0;
  std::optional<EndingComparison> endings;  // nullopt: clients wait as long as it takes
  std::vector<std::string> run_paths;       // of the run directories, relative to validation.json
  std::vector<MetricComparison> metrics;
  std::vector<StepComparison> steps;
  std::vector<PartComparison> parts;  // empty if the cost model does not distinguish parts
  std::vector<StepPoint> points;      // one per step of the first run
  std::vector<RunCurves> measured;    // one per real run
  std::vector<std::optional<RunMachine>> machines;  // one per real run; nullopt: not recorded
  RunCurves predicted;
  std::optional<MachineSpeed> speed;  // at which the runs were predicted; nullopt: the profile's
};

// Compares complete real runs of one experiment with `simulated`, the record of its simulation with
// `cost`, and replays every real run.
//
// The attribution of a metric explains the error at the recorded decisions by causes
// (attribution.h). The rest, which only the free simulation shows, is called `decisions` if the
// simulation made other plans than the real run, and `unexplained` if it made the same plans. Where
// clients give up, metrics are of the requests that completed, which need not be the same ones.
// Cost: about 2^7 passes over each run's record. Throws InputError (data) if the files of a run do
// not belong together, or if all clients of a run, real or simulated, gave up.
Validation Validate(std::span<const MeasuredRun* const> runs, const RecordedRun& simulated,
                    const sim::StepCost& cost);

}  // namespace twin::run
