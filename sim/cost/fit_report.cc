#include "sim/cost/fit_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/statistics.h"

namespace twin::sim {
namespace {

// Predictions of one part beside what was measured.
struct Comparison {
  std::vector<double> errors;
  std::vector<double> noise;
  double measured = 0;
  double predicted = 0;

  void Add(double measured_s, double predicted_s, std::optional<double> relative_noise) {
    if (!(measured_s > 0)) return;
    errors.push_back(std::abs(predicted_s - measured_s) / measured_s);
    if (relative_noise) noise.push_back(*relative_noise);
    measured += measured_s;
    predicted += predicted_s;
  }

  PartError Sum(double all_measured) {
    return {.steps = static_cast<std::int64_t>(errors.size()),
            .median = QuantileOrZero(errors, 0.5),
            .p90 = QuantileOrZero(errors, 0.9),
            .bias = measured > 0 ? predicted / measured - 1 : 0,
            .noise = noise.empty() ? std::nullopt : std::optional(Median(noise)),
            .share = all_measured > 0 ? measured / all_measured : 0};
  }
};

bool IsOfDevice(std::size_t part) {
  return part != static_cast<std::size_t>(StepPart::kSchedule) &&
         part != static_cast<std::size_t>(StepPart::kDelivery);
}

}  // namespace

FitReport MeasureFitErrors(const FittedCost& cost, std::span<const StepSample> steps) {
  std::array<Comparison, kStepPartCount> parts;
  Comparison total;
  StepPlan plan;
  for (const StepSample& step : steps) {
    if (!step.held_out) continue;
    plan.totals = step.totals;
    plan.work.resize(
        static_cast<std::size_t>(step.totals.prefill_items + step.totals.decode_items));
    const StepParts predicted = *cost.Parts(plan);
    double measured_s = 0;
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      if (!IsOfDevice(i)) continue;
      parts[i].Add(step.seconds[i], Seconds(predicted.times[i]), step.noise[i]);
      measured_s += step.seconds[i];
    }
    total.Add(measured_s, Seconds(predicted.device()), step.total_noise);
  }
  FitReport report;
  report.total = total.Sum(total.measured);
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    report.parts[i] = parts[i].Sum(total.measured);
  }
  return report;
}

}  // namespace twin::sim
