// The decoding requests of a SimWorld, whose tokens are counted together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/world/sim_world.h"

namespace twin::sim {

void SimWorld::Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) {
  if (options_.pace != nullptr || replicas_.size() > 1 || links_ || acceptance_ ||
      keeps_token_times_) {
    return;
  }
  Replica& replica = replicas_.front();
  Decodes& decodes = replica.decodes;
  const TimePoint next_other = clients_ != nullptr ? clients_->next_time() : source_.next_time();
  if (steps_.next_time() >= next_other || !replica.stale.empty() || !decodes.set.OnlyDecodes()) {
    return;
  }
  repeated_ = latest;
  filled_.clear();
  steps_max = std::min(steps_max, decodes.first_end - decodes.set.steps() - 1);
  for (std::int64_t i = 0; i < steps_max; ++i) {
    const TimePoint time = steps_.next_time();
    // Instants that hold more than one result are left to Advance().
    if (time >= next_other || time <= now_ || steps_.HasTie()) break;
    now_ = time;
    const RunningStep step = steps_.Pop();
    decodes.set.Repeat();
    EmitToMembers(*step.plan, replica, /*to_all=*/true);
    if (replica.forgets_stale_tokens) {
      replica.stale.Returned();
      replica.stale.Launched(*step.plan);
    }
    repeated_.id = StepId{Index(repeated_.id) + 1};
    repeated_.totals.Repeat(1);
    (void)Run(repeated_, replica, step.plan);
    part.moments.push_back({.now = now_, .started = step.started, .filled_end = filled_.size()});
  }
  part.filled.swap(filled_);
}

void SimWorld::EmitToMembers(const StepPlan& plan, Replica& replica, bool to_all) {
  Decodes& decodes = replica.decodes;
  std::size_t full = 0;
  if (to_all && !decodes.filling.empty()) {
    decodes.tick = decodes.TickAfter(1);
    full = decodes.filling[static_cast<std::size_t>(decodes.tick)].size();
  }
  const std::int64_t step = decodes.set.steps();
  const bool ends = to_all && step >= decodes.first_end;
  if (decodes.set.newcomers() == 0 && !ends) [[likely]] {
    if (full == 0 || FillInOrder(plan, decodes)) return;
  }
  if (ends) decodes.first_end = std::numeric_limits<std::int64_t>::max();
  std::int32_t place = -1;
  for (const WorkItem& item : plan.work) {
    ++place;
    HiddenRequest* const hidden = item.emits ? hidden_requests_.Find(item.request) : nullptr;
    if (hidden == nullptr) continue;
    hidden->place = place;
    if (!hidden->in_decode_set) {
      EmitToken(item.request, *hidden);
      if (hidden->remaining_tokens > 0) Join(item.request, *hidden, plan.replica);
    } else if (step >= hidden->last_step()) {
      LeaveDecodes(item.request, *hidden, step - 1);
      EmitToken(item.request, *hidden);
    } else {
      if (full > 0 && hidden->fill_tick == decodes.tick) FillBlock(item.request, *hidden);
      if (ends) decodes.first_end = std::min(decodes.first_end, hidden->last_step());
    }
  }
}

bool SimWorld::FillInOrder(const StepPlan& plan, const Decodes& decodes) {
  const std::vector<RequestId>& full = decodes.filling[static_cast<std::size_t>(decodes.tick)];
  places_.clear();
  for (const RequestId id : full) {
    const auto place = static_cast<std::size_t>(hidden_requests_[id].place);
    if (place >= plan.work.size() || plan.work[place].request != id) break;
    places_.push_back(place);
  }
  if (places_.size() == full.size()) {
    if (!std::ranges::is_sorted(places_)) std::ranges::sort(places_);
    for (const std::size_t place : places_) {
      const RequestId id = plan.work[place].request;
      FillBlock(id, hidden_requests_[id]);
    }
    return true;
  }
  if (full.size() > 1) return false;
  FillBlock(full.front(), hidden_requests_[full.front()]);
  return true;
}

void SimWorld::Join(RequestId id, HiddenRequest& hidden, std::int32_t replica) {
  Decodes& decodes = ReplicaAt(replica).decodes;
  decodes.set.Join(id);
  hidden.replica = replica;
  hidden.in_decode_set = true;
  hidden.joined = decodes.set.steps();
  decodes.first_end = std::min(decodes.first_end, hidden.last_step());
  if (decodes.filling.empty()) return;
  hidden.fill_tick = decodes.TickAfter(hidden.block_room);
  decodes.filling[static_cast<std::size_t>(hidden.fill_tick)].push_back(id);
}

void SimWorld::Settle(HiddenRequest& hidden, std::int64_t steps) const {
  const auto tokens = static_cast<std::int32_t>(steps - hidden.joined);
  hidden.in_decode_set = false;
  hidden.remaining_tokens -= tokens;
  if (options_.named_block_size == 0) return;
  hidden.block_room = (hidden.block_room - tokens) % options_.named_block_size;
  if (hidden.block_room <= 0) hidden.block_room += options_.named_block_size;
}

void SimWorld::LeaveDecodes(RequestId id, HiddenRequest& hidden, std::int64_t steps) {
  Decodes& decodes = ReplicaAt(hidden.replica).decodes;
  decodes.set.Leave(id);
  Settle(hidden, steps);
  if (!decodes.filling.empty()) {
    std::erase(decodes.filling[static_cast<std::size_t>(hidden.fill_tick)], id);
  }
}

void SimWorld::ClearDecodes(Decodes& decodes) {
  if (!decodes.set.members().empty()) {
    for (const RequestId id : decodes.set.members()) {
      Settle(hidden_requests_[id], decodes.set.steps());
    }
    for (std::vector<RequestId>& tick : decodes.filling) tick.clear();
  }
  decodes.first_end = std::numeric_limits<std::int64_t>::max();
  decodes.set.Clear();
}

}  // namespace twin::sim
