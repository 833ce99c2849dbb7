#include "apps/validate/step_errors.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/statistics.h"

namespace twin::run {
namespace {

std::size_t KindOf(const StepPlan& plan) {
  const StepTotals& totals = plan.totals;
  if (totals.decode_items == 0) return 0;
  return totals.prefill_items == 0 ? 1 : 2;
}

StepComparison CompareSteps(const std::string& kind, const std::vector<StepPoint>& points) {
  StepComparison comparison;
  comparison.kind = kind;
  comparison.steps = static_cast<std::int64_t>(points.size());
  std::vector<double> errors;
  for (const StepPoint& point : points) {
    comparison.measured_ms += point.measured_ms / static_cast<double>(points.size());
    comparison.predicted_ms += point.predicted_ms / static_cast<double>(points.size());
    errors.push_back(100 * std::abs(point.predicted_ms / point.measured_ms - 1));
  }
  comparison.median_error_percent = Median(errors);
  comparison.p90_error_percent = Quantile(errors, 0.9);
  return comparison;
}

}  // namespace

void StepErrors::Add(const MeasuredRun& run, const ModelledSteps& modelled) {
  const bool first = all_.empty();
  by_part_ = by_part_ && modelled.by_part;
  std::size_t step = 0;
  for (const RecordedRun::Moment& moment : run.events.moments()) {
    for (const StepPlan& plan : moment.plans) {
      const std::size_t index = step++;
      if (plan.work.empty() || index >= run.steps.size()) continue;
      const StepTimes& measured = run.steps[index];
      const StepParts& predicted = modelled.steps[index];
      all_.push_back({Milliseconds(measured.finished - measured.started),
                      Milliseconds(predicted.device()), KindOf(plan)});
      for (std::size_t i = 0; i < kStepPartCount; ++i) {
        parts_[i].measured += measured.parts.times[i];
        parts_[i].predicted += predicted.times[i];
      }
    }
  }
  if (first) points_ = all_;
}

std::vector<StepComparison> StepErrors::Compare() const {
  std::vector<StepComparison> comparisons;
  if (all_.empty()) return comparisons;
  comparisons.push_back(CompareSteps("all", all_));
  for (std::size_t kind = 0; kind < std::size(kStepKinds); ++kind) {
    std::vector<StepPoint> points;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(points),
                 [kind](const StepPoint& point) { return point.kind == kind; });
    if (!points.empty()) comparisons.push_back(CompareSteps(kStepKinds[kind], points));
  }
  return comparisons;
}

std::vector<PartComparison> StepErrors::CompareParts() const {
  std::vector<PartComparison> comparisons;
  if (!by_part_ || all_.empty()) return comparisons;
  const auto steps = static_cast<double>(all_.size());
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    if (parts_[i].measured.count() == 0 && parts_[i].predicted.count() == 0) continue;
    comparisons.push_back({std::string(kStepPartNames[i]), Milliseconds(parts_[i].measured) / steps,
                           Milliseconds(parts_[i].predicted) / steps});
  }
  return comparisons;
}

}  // namespace twin::run
