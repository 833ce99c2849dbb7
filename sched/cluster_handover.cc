// Clusters that separate prefill from decode.
#include <utility>

#include "core/check.h"
#include "sched/cluster.h"

namespace twin {

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

}  // namespace twin
