#include "sched/cluster.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "core/check.h"
#include "sched/invariant.h"
#include "sched/route/router_config.h"

namespace twin {
namespace {

std::vector<ReplicaPool> OnePool(std::unique_ptr<Router> router, Duration telemetry_delay) {
  std::vector<ReplicaPool> pools(1);
  pools[0] = {0, std::move(router), telemetry_delay};
  return pools;
}

}  // namespace

Cluster::Cluster(std::vector<std::unique_ptr<Engine>> engines, std::unique_ptr<Router> router,
                 Duration telemetry_delay)
    : Cluster(std::move(engines), OnePool(std::move(router), telemetry_delay)) {}

Cluster::Cluster(std::vector<std::unique_ptr<Engine>> engines, std::vector<ReplicaPool> pools)
    : engines_(std::move(engines)), states_(engines_.size()) {
  CHECK(!engines_.empty() && !pools.empty() && pools.size() <= 2);
  if (pools.size() == 1) pools[0].replicas = replicas();
  std::int32_t first = 0;
  for (ReplicaPool& pool : pools) {
    const bool reads_blocks = pool.router->reads_blocks();
    const std::int32_t block_size = reads_blocks ? engines_.front()->pool().block_size() : 0;
    const bool reads_loads = pool.router->reads_loads();
    pools_.push_back({.first = first,
                      .router = std::move(pool.router),
                      .telemetry = Telemetry(pool.replicas, pool.telemetry_delay, block_size),
                      .reads_loads = reads_loads,
                      .reads_blocks = reads_blocks});
    first += pool.replicas;
  }
  CHECK(first == replicas());
  for (std::int32_t i = 0; i < replicas(); ++i) {
    states_[static_cast<std::size_t>(i)].report.replica = i - PoolOf(i).first;
  }
}

Cluster::Cluster(std::vector<std::unique_ptr<Engine>> engines, MixedPools mixed)
    : Cluster(std::move(engines), MakeRouter(RouterConfig{}, 1, 1, /*seed=*/0), Duration{0}) {
  mixed_ = std::move(mixed);
}

void Cluster::Handle(TimePoint now, const Event& event) {
  CHECK(planning_ == 0);
  if (const auto* finished = std::get_if<StepFinished>(&event)) {
    Touch(finished->replica);
    OnStepFinished(now, *finished);
    if (mixed_) CountComputed(now, *finished);
    engine(finished->replica).Handle(event);
    if (separates()) SendOn(now, finished->replica);
  } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
    Route(now, *arrived);
  } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
    const Placement* const placement = placements_.Find(cancelled->request);
    // It has left already.
    if (placement == nullptr) return;
    const std::int32_t replica = placement->replica;
    Touch(replica);
    engine(replica).Handle(event);
    Leave(now, cancelled->request);
  } else if (const auto* transferred = std::get_if<TransferFinished>(&event)) {
    for (const std::int32_t replica : {transferred->from, transferred->to}) {
      Touch(replica);
      engine(replica).Handle(event);
    }
    if (mixed_) mixed_->OnPromptReleased(now, transferred->request);
  } else {
    TouchDue(now);
    if (!touched_.empty()) return;
    for (std::int32_t i = 0; i < replicas(); ++i) Touch(i);
  }
}

const StepPlan* Cluster::PlanStep(TimePoint now) {
  if (planning_ == 0) {
    TouchDue(now);
    if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
  }
  while (planning_ < touched_.size()) {
    const std::int32_t replica = touched_[planning_];
    const StepPlan* const plan = engine(replica).PlanStep(now);
    if (plan != nullptr) {
      for (const Rejection& rejection : plan->rejected) Leave(now, rejection.request);
      for (const RequestId id : plan->admitted) {
        if (mixed_) mixed_->OnPromptBegun(now, id);
      }
      return plan;
    }
    if (const TimePoint wake_at = engine(replica).wake_at(); wake_at != kTimeNever) {
      wakes_.push_back({wake_at, replica});
      std::push_heap(wakes_.begin(), wakes_.end(), Later);
    }
    if (separates()) BeginTransfers(now, replica);
    if (PoolOf(replica).reads_loads) Report(now, replica);
    states_[static_cast<std::size_t>(replica)].touched = false;
    ++planning_;
  }
  touched_.clear();
  planning_ = 0;
  for (Pool& pool : pools_) pool.received = false;
  return nullptr;
}

TimePoint Cluster::wake_at() {
  while (!wakes_.empty() && engine(wakes_.front().replica).wake_at() != wakes_.front().time) {
    std::pop_heap(wakes_.begin(), wakes_.end(), Later);
    wakes_.pop_back();
  }
  return wakes_.empty() ? kTimeNever : wakes_.front().time;
}

void Cluster::TouchDue(TimePoint now) {
  while (wake_at() <= now) {
    Touch(wakes_.front().replica);
    std::pop_heap(wakes_.begin(), wakes_.end(), Later);
    wakes_.pop_back();
  }
}

void Cluster::Route(TimePoint now, const RequestArrived& arrived) {
  const Request& request = arrived.request;
  const ReplicaPair pair = mixed_ ? mixed_->Choose(now, request) : ReplicaPair{};
  const std::int32_t replica = mixed_ ? pair.prefill : Choose(pools_.front(), now, request);
  placements_.Open(request.id) = {
      .replica = replica, .prompt_left = request.prompt_tokens, .answered = false};
  Touch(replica);
  if (!separates()) {
    engine(replica).Handle(arrived);
    return;
  }
  Journey& journey = journeys_.Open(request.id);
  journey = {.request = request, .computed = now, .from = replica, .to = pair.decode, .held = 0};
  journey.request.prefix_keys = {};
  RequestArrived prefill = arrived;
  const bool decodes_there = mixed_ && pair.decode == replica;
  prefill.request.prefill_only = request.max_output_tokens > 1 && !decodes_there;
  engine(replica).Handle(prefill);
}

std::int32_t Cluster::Choose(Pool& pool, TimePoint now, const Request& request) {
  if (pool.reads_loads && !pool.received) {
    pool.telemetry.Receive(now);
    pool.received = true;
  }
  const std::int32_t chosen = pool.router->Choose(request, now, pool.telemetry.loads());
  const std::int32_t replica = pool.first + chosen;
  CHECK(chosen >= 0 && replica < replicas() && &PoolOf(replica) == &pool);
  if (pool.reads_loads) pool.telemetry.Send(now, chosen, request);
  return replica;
}

void Cluster::OnStepFinished(TimePoint now, const StepFinished& finished) {
  if (PoolOf(finished.replica).reads_loads) {
    const StepPlan& plan = engine(finished.replica).PlanOf(finished.step);
    if (plan.totals.prefill_items > 0) CountPrompts(plan, placements_);
  }
  for (const ItemOutcome& outcome : finished.outcomes) {
    if (outcome.finish != FinishReason::kNone) Leave(now, outcome.request);
  }
}

// Counts the prompt tokens that the step computes, each once: not again after a preemption.
void Cluster::CountPrompts(const StepPlan& plan, IdTable<Placement>& placements) {
  LoadReport& report = states_[static_cast<std::size_t>(plan.replica)].report;
  for (const WorkItem& item : plan.work) {
    if (item.phase != Phase::kPrefill) continue;
    Placement* const placement = placements.Find(item.request);
    if (placement == nullptr || placement->answered) continue;
    const std::int32_t computed = std::min(placement->prompt_left, item.tokens);
    placement->prompt_left -= computed;
    report.prompt_tokens_computed += computed;
    if (!item.emits) continue;
    // The rest came from a prefix cache.
    report.prompt_tokens_computed += std::exchange(placement->prompt_left, 0);
    placement->answered = true;
    ++report.answered;
  }
}

void Cluster::Leave(TimePoint now, RequestId id) {
  const Placement* const placement = placements_.Find(id);
  // The cluster knew of the request's end before.
  if (placement == nullptr) return;
  CountLeft(*placement);
  placements_.Close(id);
  if (!separates()) return;
  Journey& journey = journeys_[id];
  if (journey.held > 0) ReleaseHeld(now, id, journey);
  journeys_.Close(id);
  if (mixed_) mixed_->OnLeft(now, id);
}

void Cluster::CountLeft(const Placement& placement) {
  LoadReport& report = states_[static_cast<std::size_t>(placement.replica)].report;
  ++report.requests_left;
  report.answered += placement.answered ? 0 : 1;
  report.prompt_tokens_computed += placement.prompt_left;
}

void Cluster::Touch(std::int32_t replica) {
  State& state = states_[static_cast<std::size_t>(replica)];
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(replica);
}

bool Cluster::CompleteReport(std::int32_t replica) {
  State& state = states_[static_cast<std::size_t>(replica)];
  if (PoolOf(replica).reads_blocks) {
    const KvPool& pool = engine(replica).pool();
    const std::int32_t blocks = pool.usable() - pool.free() - pool.cached();
    state.report.blocks = blocks - state.blocks;
    state.blocks = blocks;
  }
  return !state.report.empty();
}

void Cluster::Report(TimePoint now, std::int32_t replica) {
  if (!CompleteReport(replica)) return;
  LoadReport& report = states_[static_cast<std::size_t>(replica)].report;
  PoolOf(replica).telemetry.Report(now, report);
  report = LoadReport{.replica = report.replica};
}

void Cluster::CheckDrained() const {
  for (const auto& engine : engines_) engine->CheckDrained();
  const auto drained = [](const Ahead& ahead) { return ahead.placements.empty(); };
  if (!placements_.empty() || !std::ranges::all_of(ahead_, drained)) {
    ThrowInvariant(11, StepId{0}, "a request was routed to a replica that does not know it");
  }
}

// Separate prefill and decode.

void Cluster::SendOn(TimePoint now, std::int32_t replica) {
  std::vector<Handover>& handovers = engine(replica).handovers();
  for (const Handover& handover : handovers) {
    Placement& placement = placements_[handover.request];
    Journey& journey = journeys_[handover.request];
    CountLeft(placement);
    Request request = journey.request;
    request.prefix_keys = handover.keys;
    const std::int32_t to = mixed_ ? journey.to : Choose(pools_.back(), now, request);
    placement = {.replica = to, .prompt_left = request.prompt_tokens, .answered = false};
    journey.computed = now;
    journey.held = handover.tokens;
    Touch(to);
    engine(to).Receive(request, handover);
  }
  handovers.clear();
}

void Cluster::BeginTransfers(TimePoint now, std::int32_t replica) {
  std::vector<Reservation>& reservations = engine(replica).reservations();
  for (const Reservation& reservation : reservations) {
    Journey& journey = journeys_[reservation.request];
    if (reservation.start >= journey.held) {
      ReleaseHeld(now, reservation.request, journey);
      continue;
    }
    const KvPool& pool = engine(replica).pool();
    const auto first = static_cast<std::size_t>(pool.FullBlocks(reservation.start));
    const auto count = static_cast<std::size_t>(pool.BlocksFor(journey.held)) - first;
    transfers_.push_back(
        {.request = reservation.request,
         .from = journey.from,
         .to = replica,
         .start = reservation.start,
         .tokens = journey.held,
         .source = engine(journey.from).HeldBlocks(reservation.request).subspan(first, count),
         .target = engine(replica).TakenBlocks(reservation.request).subspan(first, count),
         .computed = journey.computed});
    journey.held = 0;
  }
  reservations.clear();
}

void Cluster::CountComputed(TimePoint now, const StepFinished& finished) {
  const StepPlan& plan = engine(finished.replica).PlanOf(finished.step);
  if (plan.totals.prefill_items == 0) return;
  for (const WorkItem& item : plan.work) {
    const bool ends_prompt = item.phase == Phase::kPrefill && item.emits;
    if (ends_prompt) mixed_->OnPromptComputed(now, item.request);
  }
}

void Cluster::ReleaseHeld(TimePoint now, RequestId id, Journey& journey) {
  engine(journey.from).ReleaseHeld(id);
  if (mixed_) mixed_->OnPromptReleased(now, id);
  journey.held = 0;
  Touch(journey.from);
}

const KvTransfer* Cluster::NextTransfer() {
  CHECK(planning_ == 0);
  if (next_transfer_ < transfers_.size()) return &transfers_[next_transfer_++];
  transfers_.clear();
  next_transfer_ = 0;
  return nullptr;
}

// Ahead of the clock: replicas go through a window of time one after the other, or several at once
// (docs/decisions/0016-replicas-one-after-the-other.md). The router gets their reports when the
// window ends.

Duration Cluster::window_max() const {
  if (separates()) return Duration{0};
  const Pool& pool = pools_.front();
  return pool.reads_loads ? pool.telemetry.delay() : Duration::max();
}

std::int32_t Cluster::RouteInWindow(TimePoint now, const Request& request) {
  Pool& pool = pools_.front();
  pool.received = false;  // each request is an instant of its own
  const std::int32_t replica = Choose(pool, now, request);
  if (pool.reads_loads) {
    if (ahead_.empty()) ahead_.resize(engines_.size());
    ahead_[static_cast<std::size_t>(replica)].placements.Open(request.id) = {
        .replica = replica, .prompt_left = request.prompt_tokens, .answered = false};
  }
  return replica;
}

void Cluster::HandleInWindow(std::int32_t replica, std::span<const Event> events) {
  for (const Event& event : events) {
    const auto* const finished = std::get_if<StepFinished>(&event);
    if (finished != nullptr && pools_.front().reads_loads) {
      const StepPlan& plan = engine(replica).PlanOf(finished->step);
      if (plan.totals.prefill_items > 0) {
        CountPrompts(plan, ahead_[static_cast<std::size_t>(replica)].placements);
      }
      for (const ItemOutcome& outcome : finished->outcomes) {
        if (outcome.finish != FinishReason::kNone) LeaveAhead(replica, outcome.request);
      }
    }
    engine(replica).Handle(event);
  }
}

void Cluster::LeaveAhead(std::int32_t replica, RequestId id) {
  IdTable<Placement>& placements = ahead_[static_cast<std::size_t>(replica)].placements;
  const Placement* const placement = placements.Find(id);
  if (placement == nullptr) return;
  CountLeft(*placement);
  placements.Close(id);
}

const StepPlan* Cluster::PlanInWindow(TimePoint now, std::int32_t replica) {
  const StepPlan* const plan = engine(replica).PlanStep(now);
  if (!pools_.front().reads_loads) return plan;
  if (plan != nullptr) {
    for (const Rejection& rejection : plan->rejected) LeaveAhead(replica, rejection.request);
    return plan;
  }
  if (CompleteReport(replica)) {
    LoadReport& report = states_[static_cast<std::size_t>(replica)].report;
    ahead_[static_cast<std::size_t>(replica)].reports.emplace_back(now, report);
    report = LoadReport{.replica = report.replica};
  }
  return nullptr;
}

void Cluster::EndWindow() {
  Telemetry& telemetry = pools_.front().telemetry;
  for (Ahead& ahead : ahead_) {
    for (const auto& [time, report] : ahead.reports) telemetry.ReportAhead(time, report);
    ahead.reports.clear();
  }
  telemetry.EndWindow();
}

}  // namespace twin
