#include "run/replica_windows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <variant>

#include "core/check.h"

namespace twin::run {
namespace {

// Instants of a replica in a window. With more of them, the logs cost more than the caches save.
constexpr std::size_t kInstantsWanted = 512;
// Smallest number of instants in a window for which several threads are used. With fewer, threads
// would mostly wait for each other.
constexpr std::size_t kInstantsShared = 128;
// More shares than threads, so that the threads end at about the same time even if the machine does
// other work.
constexpr std::int32_t kSharesMax = 32;

TimePoint ArrivalOf(const Event& event) { return std::get<RequestArrived>(event).request.arrival; }

TimePoint EndOf(TimePoint begin, Duration length) {
  return begin < kTimeNever - length ? begin + length : kTimeNever;
}

}  // namespace

ReplicaWindows::ReplicaWindows(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker,
                               LogPlayer& player, std::span<RunObserver* const> observers,
                               int threads)
    : cluster_(cluster),
      world_(world),
      tracker_(tracker),
      player_(player),
      observers_(observers.begin(), observers.end()),
      states_(static_cast<std::size_t>(cluster.replicas())),
      arrivals_log_(player.listeners()),
      team_(threads) {
  CHECK(CanServe(cluster, world));
  RunListener* const of_arrivals = &arrivals_log_;
  tracker_.ReplaceListeners({&of_arrivals, 1});
  const std::int32_t replicas = cluster.replicas();
  const std::int32_t shares = std::min(replicas, kSharesMax);
  for (std::int32_t i = 0; i < shares; ++i) {
    const std::int32_t first = replicas / shares * i + std::min(i, replicas % shares);
    const std::int32_t end = first + replicas / shares + (i < replicas % shares ? 1 : 0);
    ThreadShare& share = shares_.emplace_back(
        ThreadShare{first, end, std::make_unique<ReplicaLog>(player.listeners())});
    const std::array<RunListener*, 1> listeners = {share.log.get()};
    for (std::int32_t replica = first; replica < end; ++replica) {
      ReplicaState& state = states_[static_cast<std::size_t>(replica)];
      state.world = world_.WorldOf(replica);
      state.tracker = std::make_unique<RequestTracker>(tracker_.ReplicaConfig(replica), listeners);
    }
  }
  pages_.resize(shares_.size() + 1);
}

bool ReplicaWindows::ServeWindow() {
  const bool served = ServeWindow(std::min(length_, cluster_.window_max()));
  const std::size_t wanted = kInstantsWanted * states_.size();
  if (instants_ > wanted + wanted / 2) {
    length_ = std::max(length_ / 2, Duration{1});
  } else if (instants_ < wanted / 2 && length_ < std::chrono::hours(1)) {
    length_ *= 2;
  }
  return served;
}

bool ReplicaWindows::ServeWindow(Duration length) {
  const TimePoint begin = NextBegin();
  if (begin == kTimeNever) return false;
  const TimePoint until = EndOf(begin, length);
  const std::span<const Event> arrivals = RouteArrivals(until);
  const auto show = [this] { ShowServed(); };
  const auto serve = [this, until](std::size_t i) { ServeShare(shares_[i], until); };
  if (instants_ >= kInstantsShared) {
    team_.Run(shares_.size(), show, serve);
  } else {
    show();
    for (std::size_t i = 0; i < shares_.size(); ++i) serve(i);
  }
  ForgetArrivals(arrivals);
  cluster_.EndWindow();
  TurnPages();
  return true;
}

void ReplicaWindows::ShowServed() {
  player_.Show(pages_);
  for (LogPage& page : pages_) page.Clear();
}

TimePoint ReplicaWindows::NextBegin() {
  TimePoint begin = world_.next_arrival();
  for (const ReplicaState& state : states_) begin = std::min(begin, state.goes_on);
  return begin;
}

void ReplicaWindows::TurnPages() {
  arrivals_log_.Turn(pages_.back());
  instants_ = pages_.back().entries.size();
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].log->Turn(pages_[i]);
    instants_ += pages_[i].entries.size();
  }
}

std::span<const Event> ReplicaWindows::RouteArrivals(TimePoint until) {
  const std::span<const Event> arrivals = world_.ArrivalsBefore(until, cluster_.routes_by_prefix());
  for (const Event& event : arrivals) {
    const TimePoint now = ArrivalOf(event);
    arrivals_log_.BeginInstant(ReplicaLog::kArrival, now);
    const Load before = tracker_.load();
    tracker_.TakeEvents(now, {&event, 1});
    arrivals_log_.BeginPlans();
    arrivals_log_.EndInstant(before, tracker_.load());
    const Request& request = std::get<RequestArrived>(event).request;
    const auto replica = static_cast<std::size_t>(cluster_.RouteInWindow(now, request));
    ReplicaState& state = states_[replica];
    state.arrivals.push_back(event);
    state.goes_on = std::min(state.goes_on, now);
  }
  return arrivals;
}

void ReplicaWindows::ForgetArrivals(std::span<const Event> arrivals) {
  for (const Event& event : arrivals) {
    const RequestId id = std::get<RequestArrived>(event).request.id;
    world_.Forget(id);
    tracker_.Forget(id);
  }
}

void ReplicaWindows::ServeShare(ThreadShare& share, TimePoint until) {
  for (std::int32_t i = share.first; i < share.end; ++i) {
    if (states_[static_cast<std::size_t>(i)].goes_on < until) ServeReplica(i, until, *share.log);
  }
}

void ReplicaWindows::ServeReplica(std::int32_t replica, TimePoint until, ReplicaLog& log) {
  ReplicaState& state = states_[static_cast<std::size_t>(replica)];
  const std::vector<Event>& arrivals = state.arrivals;
  const Engine& engine = cluster_.engine(replica);
  std::size_t taken = 0;
  for (;;) {
    const TimePoint arrival = taken < arrivals.size() ? ArrivalOf(arrivals[taken]) : kTimeNever;
    const TimePoint now = std::min({state.world->next_result(), arrival, engine.wake_at()});
    if (now >= until) {
      state.goes_on = now;
      break;
    }
    const std::size_t first = taken;
    while (taken < arrivals.size() && ArrivalOf(arrivals[taken]) == now) ++taken;
    ServeInstant(replica, now, std::span(arrivals).subspan(first, taken - first), log);
  }
  state.arrivals.clear();
}

void ReplicaWindows::ServeInstant(std::int32_t replica, TimePoint now,
                                  std::span<const Event> arrivals, ReplicaLog& log) {
  ReplicaState& state = states_[static_cast<std::size_t>(replica)];
  RequestTracker& tracker = *state.tracker;
  for (const Event& event : arrivals) {
    const RequestId id = std::get<RequestArrived>(event).request.id;
    state.world->TakeOver(id, world_);
    tracker.TakeOver(id, tracker_);
  }
  const Instant instant = state.world->AdvanceTo(now, arrivals);
  log.BeginInstant(replica, now);
  const Load before = tracker.load();
  // The tracker knows of the arrivals already.
  tracker.TakeEvents(now, instant.events.first(instant.events.size() - arrivals.size()));
  log.BeginPlans();
  cluster_.HandleInWindow(replica, instant.events);
  while (const StepPlan* const plan = cluster_.PlanInWindow(now, replica)) {
    tracker.OnPlan(now, *plan);
    for (RunObserver* observer : observers_) observer->OnPlan(now, *plan);
    state.world->Launch(*plan);
  }
  log.EndInstant(before, tracker.load());
}

}  // namespace twin::run
