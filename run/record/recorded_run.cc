#include "run/record/recorded_run.h"

#include <variant>

#include "core/check.h"

namespace twin {
namespace {

// Copies what `span` shows into `lists` and makes it show the copy. Moving the outer vector's
// elements about does not move the copied elements.
template <class T>
void Keep(std::span<const T>& span, std::vector<std::vector<T>>& lists) {
  if (span.empty()) {
    span = {};
    return;
  }
  span = lists.emplace_back(span.begin(), span.end());
}

}  // namespace

void RecordedRun::OnInstant(const Instant& instant) {
  Moment& moment = moments_.emplace_back();
  moment.now = instant.now;
  moment.events.assign(instant.events.begin(), instant.events.end());
  for (Event& event : moment.events) {
    if (auto* finished = std::get_if<StepFinished>(&event)) {
      Keep(finished->outcomes, moment.outcomes);
      Keep(finished->filled, moment.filled);
    } else if (auto* arrived = std::get_if<RequestArrived>(&event)) {
      Keep(arrived->request.prefix_keys, moment.prefix_keys);
    }
  }
}

void RecordedRun::OnPlan(TimePoint now, const StepPlan& plan) {
  CHECK(!moments_.empty() && moments_.back().now == now);
  moments_.back().plans.push_back(plan);
}

void RecordedRun::OnTransfer(TimePoint now, const KvTransfer& transfer) {
  CHECK(!moments_.empty() && moments_.back().now == now);
  Moment& moment = moments_.back();
  KvTransfer& kept = moment.transfers.emplace_back(transfer);
  Keep(kept.source, moment.blocks);
  Keep(kept.target, moment.blocks);
}

void NotifyObservers(const RecordedRun& run, std::span<RunObserver* const> observers) {
  for (const RecordedRun::Moment& moment : run.moments()) {
    for (RunObserver* observer : observers) observer->OnInstant({moment.now, moment.events});
    for (const StepPlan& plan : moment.plans) {
      for (RunObserver* observer : observers) observer->OnPlan(moment.now, plan);
    }
    for (const KvTransfer& transfer : moment.transfers) {
      for (RunObserver* observer : observers) observer->OnTransfer(moment.now, transfer);
    }
  }
}

bool RecordedRunSource::NextInstant(Instant& instant) {
  if (next_moment_ == run_.moments().size()) return false;
  const RecordedRun::Moment& moment = run_.moments()[next_moment_++];
  next_plan_ = next_transfer_ = 0;
  instant = Instant{moment.now, moment.events};
  return true;
}

const StepPlan* RecordedRunSource::NextPlan() {
  if (next_moment_ == 0) return nullptr;
  const std::vector<StepPlan>& plans = run_.moments()[next_moment_ - 1].plans;
  return next_plan_ == plans.size() ? nullptr : &plans[next_plan_++];
}

const KvTransfer* RecordedRunSource::NextTransfer() {
  if (next_moment_ == 0) return nullptr;
  const std::vector<KvTransfer>& transfers = run_.moments()[next_moment_ - 1].transfers;
  return next_transfer_ == transfers.size() ? nullptr : &transfers[next_transfer_++];
}

}  // namespace twin
