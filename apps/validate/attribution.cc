#include "apps/validate/attribution.h"

#include <algorithm>

#include "core/input_error.h"
#include "run/deployed_groups.h"
#include "run/record/metrics_collector.h"
#include "run/record/request_tracker.h"
#include "run/record/retiming.h"
#include "run/record/shapley.h"
#include "run/run_metrics.h"

namespace twin::run {
namespace {

constexpr std::uint32_t Bit(StepPart part) { return 1U << static_cast<unsigned>(part); }

struct Cause {
  std::string name;
  std::uint32_t parts = 0;
  bool arrivals = false;
  bool boundary = false;
};

// True if the part takes time in any step, measured or predicted.
bool TakesTime(const MeasuredRun& run, const ModelledSteps& modelled, StepPart part) {
  const auto takes = [part](const auto& step) { return step[part] != Duration{0}; };
  return std::any_of(modelled.steps.begin(), modelled.steps.end(), takes) ||
         std::any_of(run.steps.begin(), run.steps.end(),
                     [&](const StepTimes& times) { return takes(times.parts); });
}

std::vector<Cause> CausesOf(const MeasuredRun& run, const ModelledSteps& modelled) {
  std::vector<Cause> causes = {{"arrival_jitter", 0, true}};
  std::uint32_t host = Bit(StepPart::kSchedule) | Bit(StepPart::kDelivery);
  if (!modelled.by_part) {
    const std::uint32_t all = (1U << kStepPartCount) - 1;
    causes.push_back({"host", host, false});
    causes.push_back({"device", all & ~host, false});
    return causes;
  }
  host |= Bit(StepPart::kBuild);
  causes.push_back({"host", host, false});
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    const auto part = static_cast<StepPart>(i);
    if ((host & Bit(part)) != 0 || !TakesTime(run, modelled, part)) continue;
    causes.push_back({std::string(kStepPartNames[i]), Bit(part), false});
  }
  return causes;
}

// Delays of the run's requests and tokens by the experiment's boundary; empty if it has none.
std::vector<ModelledWay> WaysOf(const MeasuredRun& run) {
  std::vector<ModelledWay> ways;
  if (!sim::HasDelays(run.config.system.boundary)) return ways;
  sim::BoundarySampler sampler(*run.config.system.boundary, run.config.seed);
  for (const RecordedRun::Moment& moment : run.events.moments()) {
    for (const Event& event : moment.events) {
      if (!std::holds_alternative<RequestArrived>(event)) continue;
      const sim::BoundaryDelays delays = sampler.Draw();
      ways.push_back({delays.request, delays.response});
    }
  }
  return ways;
}

ArrivalRule ArrivalRuleOf(const WorkloadConfig& workload) {
  const auto answers = [](const ArrivalConfig& arrivals, const RequestShape& shape) {
    return arrivals.kind == ArrivalConfig::Kind::kClosedLoop ||
           shape.sessions.turns.kind != IntegerDistribution::Kind::kNone;
  };
  bool in_return = workload.max_in_flight > 0 || answers(workload.arrivals, workload.shape);
  for (const WorkloadClass& one : workload.classes) {
    in_return = in_return || answers(one.arrivals.value_or(ArrivalConfig{}), one.shape);
  }
  return in_return ? ArrivalRule::kInReturn : ArrivalRule::kByClock;
}

// The metrics of a run that `tell` passes to observers.
template <class Tell>
Summary Summarise(const MeasuredRun& run, Tell tell) {
  MetricsCollector metrics(
      MetricsConfigOf(run.config, EnginesOf(run.config, run.header), run.header.delivery));
  RunListener* const listeners[] = {&metrics};
  RequestTracker tracker(
      TrackerConfigOf(run.config, EnginesOf(run.config, run.header), run.header.delivery),
      listeners);
  RunObserver* const observers[] = {&tracker};
  tell(std::span<RunObserver* const>(observers));
  return metrics.Summarise();
}

std::vector<double> ComparedMetrics(const Summary& summary) {
  std::vector<double> values;
  for (const std::string_view name : kComparedMetrics) values.push_back(summary.Number(name));
  return values;
}

}  // namespace

ModelledSteps ModelSteps(const MeasuredRun& run, const sim::StepCost& cost) {
  ModelledSteps modelled;
  std::vector<Duration> stages(static_cast<std::size_t>(cost.stages()));
  if (stages.size() != 1) {
    throw InputError(InputError::Kind::kUsage, "system.pipeline_parallel",
                     "must be 1: the times of steps that overlap on stages cannot be compared");
  }
  // Steps keep their recorded times, so that the errors of one do not reach the next.
  std::vector<sim::DeviceState> devices(static_cast<std::size_t>(run.config.system.replicas));
  for (const RecordedRun::Moment& moment : run.events.moments()) {
    for (const StepPlan& plan : moment.plans) {
      const std::size_t index = modelled.steps.size();
      const StepTimes times = index < run.steps.size() ? run.steps[index] : StepTimes{};
      sim::DeviceState& device = devices.at(static_cast<std::size_t>(plan.replica));
      const auto by_part = cost.Parts(plan, times.started, device);
      cost.Advance(plan, times.started, times.finished, device);
      if (by_part) {
        modelled.steps.push_back(*by_part);
        continue;
      }
      modelled.by_part = false;
      StepParts& parts = modelled.steps.emplace_back();
      parts[StepPart::kSchedule] = cost.HostTime(plan);
      parts[StepPart::kDelivery] = cost.DeliveryTime(plan);
      if (plan.work.empty() && plan.resumed.empty() && plan.preempted.empty()) continue;
      cost.DeviceTimes(plan, stages);
      parts[StepPart::kOther] = stages.front();
    }
  }
  return modelled;
}

std::vector<double> MetricsOf(const MeasuredRun& experiment, const RecordedRun& events) {
  return ComparedMetrics(
      Summarise(experiment, [&](auto observers) { NotifyObservers(events, observers); }));
}

Endings EndingsOf(const MeasuredRun& experiment, const RecordedRun& events) {
  const Summary summary =
      Summarise(experiment, [&](auto observers) { NotifyObservers(events, observers); });
  return {.completed = std::get<std::int64_t>(*summary.Find("completed")),
          .cancelled = std::get<std::int64_t>(*summary.Find("cancelled"))};
}

Attribution Attribute(const MeasuredRun& run, const ModelledSteps& modelled) {
  const std::vector<ModelledWay> ways = WaysOf(run);
  const Retiming retiming(run.events, run.steps, modelled.steps, ArrivalRuleOf(run.config.workload),
                          ways);
  std::vector<Cause> causes = CausesOf(run, modelled);
  if (!ways.empty()) causes.push_back({.name = "boundary", .boundary = true});
  const std::size_t subsets = std::size_t{1} << causes.size();
  std::vector<std::vector<double>> values(kComparedMetrics.size());  // by metric, then subset
  for (std::size_t subset = 0; subset < subsets; ++subset) {
    ModelledTimes variant;
    for (std::size_t i = 0; i < causes.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      variant.parts |= causes[i].parts;
      variant.arrivals = variant.arrivals || causes[i].arrivals;
      variant.boundary = variant.boundary || causes[i].boundary;
    }
    const std::vector<double> measured = ComparedMetrics(Summarise(run, [&](auto observers) {
      retiming.NotifyObservers(retiming.Times(variant), observers);
    }));
    for (std::size_t m = 0; m < measured.size(); ++m) values[m].push_back(measured[m]);
  }
  Attribution attribution;
  for (const Cause& cause : causes) attribution.causes.push_back(cause.name);
  for (const std::vector<double>& metric : values) {
    attribution.measured.push_back(metric.front());
    attribution.modelled.push_back(metric.back());
    attribution.shares.push_back(ShapleyShares(metric));
  }
  return attribution;
}

}  // namespace twin::run
