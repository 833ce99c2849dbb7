#include "run/record/retiming.h"

#include <algorithm>
#include <string>
#include <variant>

#include "core/check.h"
#include "core/input_error.h"

namespace twin {
namespace {

[[noreturn]] void Refuse(std::size_t step, const std::string& what) {
  throw InputError(InputError::Kind::kData, "step " + std::to_string(step + 1), what);
}

}  // namespace

Retiming::Retiming(const RecordedRun& run, std::span<const StepTimes> measured,
                   std::span<const StepParts> modelled, ArrivalRule rule,
                   std::span<const ModelledWay> ways)
    : run_(run), measured_(measured), modelled_(modelled), ways_(ways) {
  if (measured.size() != modelled.size()) {
    Refuse(std::min(measured.size(), modelled.size()),
           "has measured or modelled times, but not both");
  }
  NumberSteps();
  CheckSteps();
  for (const RecordedRun::Moment& moment : run.moments()) {
    first_arrival_.push_back(arrivals_.size());
    for (const Event& event : moment.events) {
      if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
        arrivals_.push_back({kNoMoment, arrived->request.arrival - kTimeZero});
      }
    }
  }
  CHECK(ways.empty() || ways.size() == arrivals_.size());
  if (rule == ArrivalRule::kInReturn) LinkArrivals();
}

void Retiming::NumberSteps() {
  for (const RecordedRun::Moment& moment : run_.moments()) {
    for (const StepPlan& plan : moment.plans) {
      const auto replica = static_cast<std::size_t>(plan.replica);
      if (replica >= numbers_.size()) numbers_.resize(replica + 1);
      std::vector<std::size_t>& steps = numbers_[replica];
      if (Index(plan.id) != steps.size() + 1) Refuse(before_.size(), "is out of order");
      const std::size_t before = steps.empty() ? kNoStep : steps.back();
      steps.push_back(before_.size());
      before_.push_back(before);
    }
  }
}

std::size_t Retiming::IndexOf(std::int32_t replica, StepId step) const {
  const auto index = static_cast<std::size_t>(replica);
  const std::size_t number = static_cast<std::size_t>(Index(step)) - 1;
  if (index >= numbers_.size() || number >= numbers_[index].size()) {
    Refuse(number, "was not planned");
  }
  return numbers_[index][number];
}

void Retiming::CheckSteps() const {
  std::size_t planned = 0;
  std::size_t ended = 0;
  for (const RecordedRun::Moment& moment : run_.moments()) {
    for (const Event& event : moment.events) {
      const auto* finished = std::get_if<StepFinished>(&event);
      if (finished == nullptr) continue;
      const std::size_t step = IndexOf(finished->replica, finished->step);
      if (step >= measured_.size()) Refuse(step, "has no measured times");
      if (measured_[step].told != moment.now)
        Refuse(step, "has a delivery time that is not the recorded one");
      ++ended;
    }
    for (const StepPlan& plan : moment.plans) {
      const std::size_t step = IndexOf(plan.replica, plan.id);
      ++planned;
      if (step >= measured_.size()) Refuse(step, "has no measured times");
      const StepTimes& times = measured_[step];
      if (times.planned != moment.now)
        Refuse(step, "has a planning time that is not the recorded one");
      const TimePoint free =
          before_[step] == kNoStep ? TimePoint::min() : measured_[before_[step]].finished;
      const Duration schedule = times.started - std::max(times.planned, free);
      const Duration delivery = times.told - times.finished;
      if (schedule != times.parts[StepPart::kSchedule] ||
          delivery != times.parts[StepPart::kDelivery] ||
          times.finished - times.started != times.parts.device()) {
        Refuse(step, "has parts that do not add up to its time");
      }
    }
  }
  if (planned != measured_.size()) Refuse(planned, "has measured times, but is not in the record");
  if (ended != planned) Refuse(ended, "has no end; allowed: runs that were not interrupted");
}

void Retiming::LinkArrivals() {
  const auto& moments = run_.moments();
  for (std::size_t told = 0; told < moments.size(); ++told) {
    const std::size_t end = told + 1 < moments.size() ? first_arrival_[told + 1] : arrivals_.size();
    for (std::size_t i = first_arrival_[told]; i < end; ++i) {
      Arrival& arrival = arrivals_[i];
      const TimePoint time = kTimeZero + arrival.behind;
      const auto later = std::upper_bound(
          moments.begin(), moments.begin() + static_cast<std::ptrdiff_t>(told), time,
          [](TimePoint t, const RecordedRun::Moment& moment) { return t < moment.now; });
      if (later == moments.begin()) continue;
      arrival.after = static_cast<std::size_t>(later - moments.begin()) - 1;
      arrival.behind = time - moments[arrival.after].now;
    }
  }
}

TimePoint Retiming::ArrivalTime(const Arrival& arrival,
                                const std::vector<TimePoint>& moments) const {
  return (arrival.after == kNoMoment ? kTimeZero : moments[arrival.after]) + arrival.behind;
}

RunTimes Retiming::Times(const ModelledTimes& variant) const {
  RunTimes times;
  times.boundary = variant.boundary && !ways_.empty();
  times.moments.reserve(run_.moments().size());
  times.started.reserve(measured_.size());
  times.finished.reserve(measured_.size());
  for (std::size_t i = 0; i < run_.moments().size(); ++i) {
    AppendMoment(MomentTime(i, variant, times), times);
    PlanSteps(i, variant, times);
  }
  return times;
}

TimePoint Retiming::MomentTime(std::size_t index, const ModelledTimes& variant,
                               const RunTimes& times) const {
  const RecordedRun::Moment& moment = run_.moments()[index];
  // Keeps the distance from the moment before, for events without a time of their own.
  const auto by_distance = [&] {
    if (index == 0) return moment.now;
    return times.moments[index - 1] + (moment.now - run_.moments()[index - 1].now);
  };
  TimePoint time = TimePoint::min();
  std::size_t arrival = first_arrival_[index];
  for (const Event& event : moment.events) {
    if (const auto* finished = std::get_if<StepFinished>(&event)) {
      const std::size_t step = IndexOf(finished->replica, finished->step);
      const StepParts& parts =
          variant.Has(StepPart::kDelivery) ? modelled_[step] : measured_[step].parts;
      time = std::max(time, times.finished[step] + parts[StepPart::kDelivery]);
    } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
      const Duration late = variant.arrivals ? Duration{0} : moment.now - arrived->request.arrival;
      const Duration way = times.boundary ? ways_[arrival].request : Duration{0};
      time = std::max(time, ArrivalTime(arrivals_[arrival++], times.moments) + way + late);
    } else if (!std::holds_alternative<RequestCancelled>(event)) {
      time = std::max(time, by_distance());
    }
  }
  return time == TimePoint::min() && !moment.events.empty() ? by_distance() : time;
}

bool Retiming::Yields(std::size_t moment) const {
  const RecordedRun::Moment& at = run_.moments()[moment];
  return at.plans.empty() && !at.events.empty() &&
         std::ranges::all_of(at.events, [](const Event& event) {
           return std::holds_alternative<RequestCancelled>(event);
         });
}

void Retiming::AppendMoment(TimePoint time, RunTimes& times) const {
  std::size_t first = times.moments.size();
  while (first > 0 && times.moments[first - 1] > time && Yields(first - 1)) --first;
  if (first > 0) time = std::max(time, times.moments[first - 1]);
  for (std::size_t i = first; i < times.moments.size(); ++i) times.moments[i] = time;
  times.moments.push_back(time);
}

void Retiming::PlanSteps(std::size_t moment, const ModelledTimes& variant, RunTimes& times) const {
  const TimePoint now = times.moments[moment];
  for (const StepPlan& plan : run_.moments()[moment].plans) {
    const std::size_t step = IndexOf(plan.replica, plan.id);
    const StepParts& measured = measured_[step].parts;
    const StepParts& modelled = modelled_[step];
    const TimePoint free =
        before_[step] == kNoStep ? TimePoint::min() : times.finished[before_[step]];
    // A measured schedule part follows the previous step; a modelled one may overlap it.
    const TimePoint started = variant.Has(StepPart::kSchedule)
                                  ? std::max(now + modelled[StepPart::kSchedule], free)
                                  : std::max(now, free) + measured[StepPart::kSchedule];
    Duration device{0};
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      const auto part = static_cast<StepPart>(i);
      if (part == StepPart::kSchedule || part == StepPart::kDelivery) continue;
      device += variant.Has(part) ? modelled[part] : measured[part];
    }
    times.started.push_back(started);
    times.finished.push_back(started + device);
  }
}

void Retiming::NotifyObservers(const RunTimes& times,
                               std::span<RunObserver* const> observers) const {
  std::vector<Event> events;
  for (std::size_t i = 0; i < run_.moments().size(); ++i) {
    const RecordedRun::Moment& moment = run_.moments()[i];
    events = moment.events;
    std::size_t arrival = first_arrival_[i];
    for (Event& event : events) {
      if (auto* finished = std::get_if<StepFinished>(&event)) {
        finished->started = times.started[IndexOf(finished->replica, finished->step)];
      } else if (auto* arrived = std::get_if<RequestArrived>(&event)) {
        if (times.boundary) arrived->response_delay = ways_[arrival].response;
        arrived->request.arrival = ArrivalTime(arrivals_[arrival++], times.moments);
      }
    }
    for (RunObserver* observer : observers) observer->OnInstant({times.moments[i], events});
    for (const StepPlan& plan : moment.plans) {
      for (RunObserver* observer : observers) observer->OnPlan(times.moments[i], plan);
    }
  }
}

}  // namespace twin
