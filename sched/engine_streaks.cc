// The decode streaks of an Engine: when they begin and end, and the steps that they plan.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "sched/engine.h"
#include "sched/invariant.h"

namespace twin {

bool Engine::PlanStreak(StepBuilder& builder, StepPlan& plan) {
  if (!streak_can_begin_) return false;
  const StepPlan& latest = Slot(StepId{Index(next_step_) - 1});
  if (streak_.open() && streak_.reaches_limit()) {
    streak_.Close(latest.id);
    streak_has_ends_ = true;
  }
  if (!streak_.open()) {
    // Blocks of a cancelled request that was in flight come back without an outcome.
    if (!releases_.empty() && !streak_has_ends_) return false;
    const std::optional<DecodeLimits> limits = policy_->DecodeStreakLimits();
    if (!limits || pool_.free() < limits->free_blocks_min || in_flight_ > 1) return false;
    if (streak_has_ends_ && (!limits->after_ends || SomebodyWaits())) return false;
    // A request that only prefills here ends with its prompt.
    if (DecodeStreak::Admits(latest) && (!limits->after_prompts || census_.prefill_only > 0)) {
      return false;
    }
    streak_.Open(latest, *limits, policy_->DecodeStreakReversals(), builder, sequences_);
  }
  return streak_.PlanNext(*policy_, builder, latest, releases_, plan);
}

std::int64_t Engine::StreakStepsLeft() const {
  const bool goes_on = streak_.open() && streak_can_begin_ && releases_.empty() &&
                       in_flight_ == traits_.steps_in_flight_max;
  // With publishes_returned_tokens blocks are published unless a later step is in flight.
  if (!goes_on || (traits_.publishes_returned_tokens && in_flight_ == 1)) return 0;
  if (streak_.HasOthers(PlanOf(oldest_in_flight_))) return 0;
  return std::min(streak_.StepsLeft(pool_), StreakPart::kMomentsMax);
}

void Engine::Continue(StreakPart& part) {
  part.replica = replica_;
  part.first_launched = next_step_;
  part.first_totals = LatestPlan().totals;
  part.first_totals.Repeat(1);
  part_plan_.kv.swap(part.kv);
  part_plan_.id = next_step_;
  StepBuilder builder(part.moments.back().now, traits_, sequences_, pool_, census_, part_plan_,
                      reservations_, servable_tokens_);
  const std::int32_t free_blocks = pool_.free() + pool_.cached();
  const BlockFilled* filled = part.filled.data();
  for (StreakPart::Moment& moment : part.moments) {
    for (const BlockFilled* const end = part.filled.data() + moment.filled_end; filled != end;) {
      TakeKey(*filled++);
    }
    streak_.OnReturned();
    streak_.TakeBlocks(builder);
    moment.kv_end = part_plan_.kv.size();
    moment.free_blocks = pool_.free() + pool_.cached();
  }
  if (pool_.free() < 0) ThrowInvariant(4, next_step_, "more blocks are reserved than free");
  part_plan_.kv.swap(part.kv);
  PlacePlans(part, free_blocks);
  planned_at_ = part.moments.back().now;
  plans_this_instant_ = 1;
}

void Engine::PlacePlans(const StreakPart& part, std::int32_t free_blocks) {
  const std::size_t count = part.moments.size();
  const std::uint64_t first = Index(next_step_);
  const StepPlan* latest = &Slot(StepId{first - 1});
  for (std::size_t i = count - std::min(count, plans_.size()); i < count; ++i) {
    const std::size_t kv_begin = i == 0 ? 0 : part.moments[i - 1].kv_end;
    StepPlan& plan = Slot(StepId{first + i});
    streak_.RepeatWork(*latest, StepId{first + i}, plan);
    plan.kv.assign(part.kv.begin() + static_cast<std::ptrdiff_t>(kv_begin),
                   part.kv.begin() + static_cast<std::ptrdiff_t>(part.moments[i].kv_end));
    plan.free_blocks_before = i == 0 ? free_blocks : part.moments[i - 1].free_blocks;
    WriteState(plan, part.moments[i].free_blocks);
    latest = &plan;
  }
  next_step_ = StepId{first + count};
  oldest_in_flight_ = StepId{Index(oldest_in_flight_) + count};
}

void Engine::ApplyWithOthers(const StepPlan& plan, const StepFinished& finished) {
  const std::span<Sequence* const> members = streak_.members();
  others_.clear();
  std::size_t next = 0;
  for (const WorkItem& item : plan.work) {
    if (next < members.size() && members[next]->id == item.request) {
      ++next;
    } else {
      others_.push_back(item.request);
    }
  }
  const auto is_member = [&](const ItemOutcome& outcome) {
    return std::ranges::find(others_, outcome.request) == others_.end();
  };
  if (std::ranges::any_of(finished.outcomes, is_member)) CloseForEnds();
  // In the order of the work, in which blocks are given back.
  const ItemOutcome* outcome = finished.outcomes.data();
  const ItemOutcome* const end = outcome + finished.outcomes.size();
  auto other = others_.begin();
  for (const WorkItem& item : plan.work) {
    const bool has_outcome = outcome != end && outcome->request == item.request;
    if (other != others_.end() && *other == item.request) {
      ++other;
      const ItemOutcome expected{item.request, item.emits ? 1 : 0, FinishReason::kNone};
      ApplyOutcome(sequences_[item.request], item, has_outcome ? *outcome : expected);
    } else if (has_outcome) {
      EndMember(sequences_[item.request]);
    }
    outcome += has_outcome ? 1 : 0;
  }
}

void Engine::CloseForEnds() {
  streak_.Close(StepId{Index(next_step_) - 1});
  streak_has_ends_ = streak_can_begin_;
}

void Engine::EndMember(Sequence& s) {
  if (traits_.publishes_returned_tokens) PublishReturned(s);
  EndReturned(s);
}

}  // namespace twin
