#include "lab/serve_ahead.h"

#include <algorithm>
#include <variant>

#include "core/check.h"

namespace twin::lab {
namespace {

// Instants of a replica in a window.
constexpr std::size_t kInstantsWanted = 64;

TimePoint ArrivalOf(const Event& event) { return std::get<RequestArrived>(event).request.arrival; }

TimePoint EndOf(TimePoint begin, Duration length) {
  return begin < kTimeNever - length ? begin + length : kTimeNever;
}

}  // namespace

AheadServer::AheadServer(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker,
                         ReplicaLog& log, std::span<RunObserver* const> observers)
    : cluster_(cluster),
      world_(world),
      tracker_(tracker),
      log_(log),
      observers_(observers.begin(), observers.end()),
      arrivals_(static_cast<std::size_t>(cluster.replicas())),
      goes_on_(arrivals_.size(), kTimeNever) {
  CHECK(CanServe(cluster, world));
}

bool AheadServer::ServeWindow() {
  const bool served = ServeWindow(std::min(length_, cluster_.window_max()));
  const std::size_t wanted = kInstantsWanted * arrivals_.size();
  if (instants_ > wanted + wanted / 2) {
    length_ = std::max(length_ / 2, Duration{1});
  } else if (instants_ < wanted / 2 && length_ < std::chrono::hours(1)) {
    length_ *= 2;
  }
  return served;
}

bool AheadServer::ServeWindow(Duration length) {
  const TimePoint begin = std::min(world_.next_arrival(), *std::ranges::min_element(goes_on_));
  if (begin == kTimeNever) return false;
  const TimePoint until = EndOf(begin, length);
  RouteArrivals(until);
  for (std::int32_t i = 0; i < cluster_.replicas(); ++i) {
    if (goes_on_[static_cast<std::size_t>(i)] < until) ServeReplica(i, until);
  }
  cluster_.EndWindow();
  instants_ = log_.Replay();
  return true;
}

void AheadServer::RouteArrivals(TimePoint until) {
  for (const Event& event : world_.ArrivalsBefore(until)) {
    const TimePoint now = ArrivalOf(event);
    log_.BeginInstant(ReplicaLog::kArrival, now);
    const Load before = tracker_.load();
    tracker_.TakeEvents(now, {&event, 1});
    log_.BeginPlans();
    log_.EndInstant(before, tracker_.load());
    const Request& request = std::get<RequestArrived>(event).request;
    const auto replica = static_cast<std::size_t>(cluster_.RouteAhead(now, request));
    arrivals_[replica].push_back(event);
    goes_on_[replica] = std::min(goes_on_[replica], now);
  }
}

void AheadServer::ServeReplica(std::int32_t replica, TimePoint until) {
  std::vector<Event>& arrivals = arrivals_[static_cast<std::size_t>(replica)];
  const Engine& engine = cluster_.engine(replica);
  std::size_t taken = 0;
  for (;;) {
    const TimePoint arrival = taken < arrivals.size() ? ArrivalOf(arrivals[taken]) : kTimeNever;
    const TimePoint now = std::min({world_.next_result(replica), arrival, engine.wake_at()});
    if (now >= until) {
      goes_on_[static_cast<std::size_t>(replica)] = now;
      break;
    }
    const std::size_t first = taken;
    while (taken < arrivals.size() && ArrivalOf(arrivals[taken]) == now) ++taken;
    ServeInstant(replica, now, std::span(arrivals).subspan(first, taken - first));
  }
  arrivals.clear();
}

void AheadServer::ServeInstant(std::int32_t replica, TimePoint now,
                               std::span<const Event> arrivals) {
  const Instant instant = world_.AdvanceReplica(replica, now, arrivals);
  log_.BeginInstant(replica, now);
  const Load before = tracker_.load();
  // It knows of the arrivals.
  tracker_.TakeEvents(now, instant.events.first(instant.events.size() - arrivals.size()));
  log_.BeginPlans();
  cluster_.HandleAhead(now, replica, instant.events);
  while (const StepPlan* const plan = cluster_.PlanAhead(now, replica)) {
    log_.AddPlan(*plan);
    tracker_.OnPlan(now, *plan);
    for (RunObserver* observer : observers_) observer->OnPlan(now, *plan);
    world_.Launch(*plan);
  }
  log_.EndInstant(before, tracker_.load());
}

}  // namespace twin::lab
