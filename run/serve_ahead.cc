#include "run/serve_ahead.h"

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
constexpr std::int32_t kShardsMax = 32;

TimePoint ArrivalOf(const Event& event) { return std::get<RequestArrived>(event).request.arrival; }

TimePoint EndOf(TimePoint begin, Duration length) {
  return begin < kTimeNever - length ? begin + length : kTimeNever;
}

}  // namespace

AheadServer::AheadServer(Cluster& cluster, sim::SimWorld& world, RequestTracker& tracker,
                         LogPlayer& player, std::span<RunObserver* const> observers, int threads)
    : cluster_(cluster),
      world_(world),
      tracker_(tracker),
      player_(player),
      observers_(observers.begin(), observers.end()),
      lanes_(static_cast<std::size_t>(cluster.replicas())),
      arrivals_log_(player.listeners()),
      team_(threads) {
  CHECK(CanServe(cluster, world));
  RunListener* const of_arrivals = &arrivals_log_;
  tracker_.ReplaceListeners({&of_arrivals, 1});
  const std::int32_t replicas = cluster.replicas();
  const std::int32_t shards = std::min(replicas, kShardsMax);
  for (std::int32_t i = 0; i < shards; ++i) {
    const std::int32_t first = replicas / shards * i + std::min(i, replicas % shards);
    const std::int32_t end = first + replicas / shards + (i < replicas % shards ? 1 : 0);
    Shard& shard =
        shards_.emplace_back(Shard{first, end, std::make_unique<ReplicaLog>(player.listeners())});
    const std::array<RunListener*, 1> listeners = {shard.log.get()};
    for (std::int32_t replica = first; replica < end; ++replica) {
      Lane& lane = lanes_[static_cast<std::size_t>(replica)];
      lane.world = world_.WorldOf(replica);
      lane.tracker = std::make_unique<RequestTracker>(tracker_.ReplicaConfig(replica), listeners);
    }
  }
  pages_.resize(shards_.size() + 1);
}

bool AheadServer::ServeWindow() {
  const bool served = ServeWindow(std::min(length_, cluster_.window_max()));
  const std::size_t wanted = kInstantsWanted * lanes_.size();
  if (instants_ > wanted + wanted / 2) {
    length_ = std::max(length_ / 2, Duration{1});
  } else if (instants_ < wanted / 2 && length_ < std::chrono::hours(1)) {
    length_ *= 2;
  }
  return served;
}

bool AheadServer::ServeWindow(Duration length) {
  const TimePoint begin = NextBegin();
  if (begin == kTimeNever) return false;
  const TimePoint until = EndOf(begin, length);
  const std::span<const Event> arrivals = RouteArrivals(until);
  const auto show = [this] { ShowServed(); };
  const auto serve = [this, until](std::size_t i) { ServeShard(shards_[i], until); };
  if (instants_ >= kInstantsShared) {
    team_.Run(shards_.size(), show, serve);
  } else {
    show();
    for (std::size_t i = 0; i < shards_.size(); ++i) serve(i);
  }
  ForgetArrivals(arrivals);
  cluster_.EndWindow();
  TurnPages();
  return true;
}

void AheadServer::ShowServed() {
  player_.Show(pages_);
  for (LogPage& page : pages_) page.Clear();
}

TimePoint AheadServer::NextBegin() {
  TimePoint begin = world_.next_arrival();
  for (const Lane& lane : lanes_) begin = std::min(begin, lane.goes_on);
  return begin;
}

void AheadServer::TurnPages() {
  arrivals_log_.Turn(pages_.back());
  instants_ = pages_.back().entries.size();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].log->Turn(pages_[i]);
    instants_ += pages_[i].entries.size();
  }
}

std::span<const Event> AheadServer::RouteArrivals(TimePoint until) {
  const std::span<const Event> arrivals = world_.ArrivalsBefore(until, cluster_.routes_by_prefix());
  for (const Event& event : arrivals) {
    const TimePoint now = ArrivalOf(event);
    arrivals_log_.BeginInstant(ReplicaLog::kArrival, now);
    const Load before = tracker_.load();
    tracker_.TakeEvents(now, {&event, 1});
    arrivals_log_.BeginPlans();
    arrivals_log_.EndInstant(before, tracker_.load());
    const Request& request = std::get<RequestArrived>(event).request;
    const auto replica = static_cast<std::size_t>(cluster_.RouteAhead(now, request));
    Lane& lane = lanes_[replica];
    lane.arrivals.push_back(event);
    lane.goes_on = std::min(lane.goes_on, now);
  }
  return arrivals;
}

void AheadServer::ForgetArrivals(std::span<const Event> arrivals) {
  for (const Event& event : arrivals) {
    const RequestId id = std::get<RequestArrived>(event).request.id;
    world_.Forget(id);
    tracker_.Forget(id);
  }
}

void AheadServer::ServeShard(Shard& shard, TimePoint until) {
  for (std::int32_t i = shard.first; i < shard.end; ++i) {
    if (lanes_[static_cast<std::size_t>(i)].goes_on < until) ServeReplica(i, until, *shard.log);
  }
}

void AheadServer::ServeReplica(std::int32_t replica, TimePoint until, ReplicaLog& log) {
  Lane& lane = lanes_[static_cast<std::size_t>(replica)];
  const std::vector<Event>& arrivals = lane.arrivals;
  const Engine& engine = cluster_.engine(replica);
  std::size_t taken = 0;
  for (;;) {
    const TimePoint arrival = taken < arrivals.size() ? ArrivalOf(arrivals[taken]) : kTimeNever;
    const TimePoint now = std::min({lane.world->next_result(), arrival, engine.wake_at()});
    if (now >= until) {
      lane.goes_on = now;
      break;
    }
    const std::size_t first = taken;
    while (taken < arrivals.size() && ArrivalOf(arrivals[taken]) == now) ++taken;
    ServeInstant(replica, now, std::span(arrivals).subspan(first, taken - first), log);
  }
  lane.arrivals.clear();
}

void AheadServer::ServeInstant(std::int32_t replica, TimePoint now, std::span<const Event> arrivals,
                               ReplicaLog& log) {
  Lane& lane = lanes_[static_cast<std::size_t>(replica)];
  RequestTracker& tracker = *lane.tracker;
  for (const Event& event : arrivals) {
    const RequestId id = std::get<RequestArrived>(event).request.id;
    lane.world->TakeOver(id, world_);
    tracker.TakeOver(id, tracker_);
  }
  const Instant instant = lane.world->AdvanceTo(now, arrivals);
  log.BeginInstant(replica, now);
  const Load before = tracker.load();
  // The tracker knows of the arrivals already.
  tracker.TakeEvents(now, instant.events.first(instant.events.size() - arrivals.size()));
  log.BeginPlans();
  cluster_.HandleAhead(replica, instant.events);
  while (const StepPlan* const plan = cluster_.PlanAhead(now, replica)) {
    tracker.OnPlan(now, *plan);
    for (RunObserver* observer : observers_) observer->OnPlan(now, *plan);
    lane.world->Launch(*plan);
  }
  log.EndInstant(before, tracker.load());
}

}  // namespace twin::run
