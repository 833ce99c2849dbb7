#include "apps/validate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "apps/validate/attribution.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "run/deployed_groups.h"
#include "run/record/metrics_collector.h"
#include "run/record/plan_digest.h"
#include "run/record/request_tracker.h"
#include "run/replay.h"
#include "run/run_metrics.h"

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

// Errors of the predicted device times of single steps, for the recorded compositions of one or
// more runs. Steps without work are left out.
class StepErrors {
 public:
  void Add(const MeasuredRun& run, const ModelledSteps& modelled);

  // All steps first, then one entry per kind that occurs.
  [[nodiscard]] std::vector<StepComparison> Compare() const;
  // Parts with measured or predicted time; empty if the cost model does not distinguish parts.
  [[nodiscard]] std::vector<PartComparison> CompareParts() const;
  // Steps of the first run.
  [[nodiscard]] const std::vector<StepPoint>& points() const { return points_; }

 private:
  struct Parts {
    Duration measured{0};
    Duration predicted{0};
  };

  std::vector<StepPoint> all_;
  std::vector<StepPoint> points_;
  std::array<Parts, kStepPartCount> parts_{};
  bool by_part_ = true;
};

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

// Fills the curves that the report draws, and returns the digest of the run's plans.
std::string ReadCurves(const MeasuredRun& run, const RecordedRun& events, RunCurves& curves) {
  PlanDigest digest;
  RunListener* const listeners[] = {&curves};
  RequestTracker tracker(
      TrackerConfigOf(run.config, EnginesOf(run.config, run.header), run.header.delivery),
      listeners);
  RunObserver* const observers[] = {&digest, &tracker};
  NotifyObservers(events, observers);
  return digest.text();
}

void CompareDecisions(const MeasuredRun& run, const std::string& digest, Validation& validation) {
  RecordedRunSource source(run.events);
  const ReplayResult again = ReplayDecisions(source, run.config, run.header);
  if (again.difference) {
    validation.difference = fmt::format("{}: after {} equal plans\n{}", run.path.string(),
                                        again.equal_plans, again.difference->text());
  } else if (again.digest_text != digest) {
    validation.difference = fmt::format("{}: replayed digest {}, recorded digest {}",
                                        run.path.string(), again.digest_text, digest);
  } else {
    return;
  }
  validation.digest_equal = false;
}

std::optional<double> NoisePercent(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return 100 * (*most - *least) / mean;
}

// How requests ended where clients give up. Throws InputError (data) if no request completed.
std::optional<EndingComparison> CompareEndings(std::span<const MeasuredRun* const> runs,
                                               const RecordedRun& simulated) {
  const MeasuredRun& first = *runs.front();
  const auto* real = std::get_if<RealWorldConfig>(&first.config.world);
  if (real == nullptr || !real->client_timeout) return std::nullopt;
  const auto require = [&](const Endings& endings, const std::string& where) {
    if (endings.completed > 0) return;
    throw InputError(InputError::Kind::kData, where,
                     "every client gave up; allowed: a world.real.client_timeout_s that some "
                     "requests keep");
  };
  EndingComparison comparison{.client_timeout = *real->client_timeout,
                              .predicted = EndingsOf(first, simulated),
                              .measured = {}};
  for (const MeasuredRun* run : runs) {
    require(comparison.measured.emplace_back(EndingsOf(*run, run->events)), run->path.string());
  }
  require(comparison.predicted, "the simulation of " + first.path.string());
  return comparison;
}

double& AmountOf(const std::string& cause, MetricComparison& metric) {
  for (Contribution& part : metric.attribution) {
    if (part.cause == cause) return part.amount;
  }
  return metric.attribution.emplace_back(Contribution{cause, 0}).amount;
}

struct AttributedRun {
  Attribution attribution;
  std::string rest;  // cause of what only the free simulation shows
};

// Averages over runs. The errors against each run average to the error against the runs' mean.
void CompareMetrics(const std::vector<AttributedRun>& runs, const std::vector<double>& predicted,
                    Validation& validation) {
  const auto count = static_cast<double>(runs.size());
  for (std::size_t m = 0; m < kComparedMetrics.size(); ++m) {
    MetricComparison metric;
    metric.name = kComparedMetrics[m];
    metric.predicted = predicted[m];
    std::vector<double> values;
    for (const auto& [run, rest] : runs) {
      values.push_back(run.measured[m]);
      metric.measured += run.measured[m] / count;
      for (std::size_t cause = 0; cause < run.causes.size(); ++cause) {
        AmountOf(run.causes[cause], metric) += run.shares[m][cause] / count;
      }
    }
    for (const auto& [run, rest] : runs) {
      AmountOf(rest, metric) += (predicted[m] - run.modelled[m]) / count;
    }
    metric.repeat_noise_percent = NoisePercent(values, metric.measured);
    validation.metrics.push_back(std::move(metric));
  }
}

}  // namespace

void RunCurves::OnLoad(TimePoint from, TimePoint /*to*/, const Load& load) {
  if (!load_.empty() && load_.back().load == load) return;
  load_.push_back({Seconds(from), load});
}

void RunCurves::OnEnded(const RequestLife& life) {
  if (life.status != RequestStatus::kCompleted || !life.measured) return;
  ttft_ms_.push_back(Milliseconds(life.first_received() - life.arrival));
  e2el_ms_.push_back(Milliseconds(life.last_received() - life.arrival));
  if (!life.has_gaps()) return;
  tpot_ms_.push_back(Milliseconds(life.ended - life.first_token) / (life.output_tokens - 1));
}

Validation Validate(std::span<const MeasuredRun* const> runs, const RecordedRun& simulated,
                    const sim::StepCost& cost) {
  const MeasuredRun& first = *runs.front();
  Validation validation;
  validation.name = first.config.name;
  validation.policy = first.header.policy;
  validation.runs = static_cast<std::int64_t>(runs.size());
  const std::string simulated_digest = ReadCurves(first, simulated, validation.predicted);
  validation.endings = CompareEndings(runs, simulated);
  StepErrors errors;
  std::vector<AttributedRun> attributions;
  for (const MeasuredRun* run : runs) {
    const std::string digest = ReadCurves(*run, run->events, validation.measured.emplace_back());
    if (run == &first) validation.digest = digest;
    CompareDecisions(*run, digest, validation);
    const ModelledSteps modelled = ModelSteps(*run, cost);
    errors.Add(*run, modelled);
    attributions.push_back(
        {Attribute(*run, modelled), digest == simulated_digest ? "unexplained" : "decisions"});
    validation.machines.push_back(run->machine);
  }
  validation.steps = errors.Compare();
  validation.parts = errors.CompareParts();
  validation.points = errors.points();
  CompareMetrics(attributions, MetricsOf(first, simulated), validation);
  validation.completed = static_cast<std::int64_t>(validation.measured.front().e2el_ms().size());
  return validation;
}

}  // namespace twin::run
