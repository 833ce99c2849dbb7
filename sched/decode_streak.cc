#include "sched/decode_streak.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"

namespace twin {

void DecodeStreak::Open(const StepPlan& plan, const DecodeLimits& limits,
                        std::span<const std::int32_t> reversals, const StepBuilder& step,
                        SequenceTable& sequences) {
  CHECK(!open());
  limits_ = limits;
  followed_ = plan.id;
  steps_max_ = std::numeric_limits<std::int64_t>::max();
  planned_ = returned_ = 0;
  members_.resize(plan.work.size());
  first_grows_.resize(plan.work.size());
  std::size_t count = 0;
  for (const WorkItem& item : plan.work) {
    Sequence* const s = sequences.Find(item.request);
    if (s == nullptr || s->state != SequenceState::kRunning) continue;  // it has ended
    if (limits.after_ends && s->in_flight > 0 && s->certain_to_end()) continue;
    // Otherwise whether anything follows the last token that the client wants is for the policy to
    // decide.
    const std::int64_t outputs =
        std::int64_t{s->prompt_tokens} + s->max_output_tokens - s->known - s->pending;
    steps_max_ = std::min({steps_max_, outputs, std::int64_t{limits.computed_max} - s->computed});
    members_[count] = s;
    first_grows_[count++] = s->blocks.capacity_tokens - s->computed + 1;
    if (step.traits().publishes_in_steps() && step.pool().HasUnpublished(s->blocks, s->known)) {
      with_new_keys_.push_back(s);
    }
  }
  members_.resize(count);
  first_grows_.resize(count);
  has_others_ = count < plan.work.size();
  growing_.Assign(step.pool().block_size(), first_grows_);
  reversals_.assign(reversals.begin(), reversals.end());
  mirrored_.clear();
  for (const std::int32_t end : reversals_) {
    const std::size_t begin = mirrored_.size();
    const auto size = static_cast<std::size_t>(end) - begin;
    for (std::size_t i = size; i-- > 0;) mirrored_.push_back(begin + i);
  }
  CHECK(mirrored_.empty() || mirrored_.size() == members_.size());
}

template <class Visit>
void DecodeStreak::ForEachGrowing(Visit visit) {
  if (mirrored_.empty() || planned_ % 2 == 0) {
    growing_.ForEachDue(planned_, [&](std::size_t i) { visit(*members_[i]); });
    return;
  }
  due_.clear();
  growing_.ForEachDue(planned_, [&](std::size_t i) { due_.push_back(mirrored_[i]); });
  std::ranges::sort(due_);
  for (const std::size_t place : due_) visit(*members_[mirrored_[place]]);
}

bool DecodeStreak::PlanNext(Policy& policy, StepBuilder& step, const StepPlan& latest,
                            std::vector<KvOperation>& releases, StepPlan& plan) {
  if (!open() || reaches_limit()) return false;
  // Asked first: a policy that continues has moved its own state on, and must not plan this step
  // once more.
  if (!limits_.makes_room && !BlocksSuffice(step.pool())) return false;
  RepeatWork(latest, StepId{Index(latest.id) + 1}, plan);
  plan.free_blocks_before = step.pool().free() + step.pool().cached();
  if (!policy.ContinueDecodeStreak(step)) return false;
  plan.kv.swap(releases);
  TakeBlocks(step);
  return true;
}

void DecodeStreak::TakeBlocks(StepBuilder& step) {
  ++planned_;
  ForEachGrowing([&](const Sequence& s) { CHECK(step.Grow(s, s.computed + planned_)); });
  if (step.traits().publishes_in_steps()) {
    for (const Sequence* s : with_new_keys_) step.PublishPrefix(*s, s->known + returned_);
  }
  with_new_keys_.clear();
}

std::int64_t DecodeStreak::StepsLeft(const KvPool& pool) const {
  if (planned_ == 0 || limits_.asks_each_step || !reversals_.empty()) return 0;
  // In block_size steps each member takes at most one block.
  const std::int64_t left = steps_max_ - planned_;
  const std::int64_t free = pool.free() - limits_.free_blocks_min;
  if (free < 0) return 0;
  const std::int64_t rounds = free / static_cast<std::int64_t>(members_.size());
  if (rounds * pool.block_size() >= left) return left;
  std::int64_t reserved = std::numeric_limits<std::int32_t>::max();
  for (const Sequence* s : members_) {
    reserved = std::min<std::int64_t>(reserved, s->blocks.reserved_blocks);
  }
  return std::min(left, (rounds + reserved) * pool.block_size());
}

bool DecodeStreak::BlocksSuffice(const KvPool& pool) const {
  std::int32_t blocks = 0;
  growing_.ForEachDue(planned_ + 1, [&](std::size_t i) {
    blocks += members_[i]->blocks.reserved_blocks > 0 ? 0 : 1;
  });
  return pool.free() - blocks >= limits_.free_blocks_min;
}

void DecodeStreak::RepeatWork(const StepPlan& latest, StepId id, StepPlan& plan) const {
  if (latest.id == followed_ && !SameAsMembers(latest)) {
    PlanMembers(latest, plan);
    plan.id = id;
    return;
  }
  StepTotals totals = latest.totals;
  totals.Repeat(static_cast<std::int64_t>(Index(id) - Index(latest.id)));
  if (plan.id < followed_ || (plan.id == followed_ && !SameAsMembers(plan))) {
    plan.Clear();
    plan.id = latest.id;
    plan.work = latest.work;
    plan.padding_rows = latest.padding_rows;
  }
  // Otherwise it holds a step with the same items, some steps ago.
  const auto steps = static_cast<std::int32_t>(Index(id) - Index(plan.id));
#pragma GCC unroll 4
  for (WorkItem& item : plan.work) item.start += steps;
  if (steps % 2 == 1) {
    auto begin = plan.work.begin();
    for (const std::int32_t end : reversals_) {
      std::reverse(begin, plan.work.begin() + end);
      begin = plan.work.begin() + end;
    }
  }
  plan.id = id;
  plan.repeats.is_set = reversals_.empty();
  plan.kv.clear();
  plan.totals = totals;
}

void DecodeStreak::PlanMembers(const StepPlan& latest, StepPlan& plan) const {
  const bool repeats = !has_others_ && reversals_.empty() && latest.padding_rows.empty();
  if (&plan != &latest) plan.work = latest.work;
  std::vector<WorkItem> work = std::move(plan.work);
  plan.Clear();
  StepTotals& totals = plan.totals;
  std::size_t count = 0;
  for (const WorkItem& item : work) {
    if (count == members_.size() || members_[count]->id != item.request) continue;
    const std::int64_t end = item.start + item.tokens + 1;
    work[count++] = {item.request, item.start + item.tokens, 1, 0, Phase::kDecode, /*emits=*/true};
    totals.decode_context_tokens += end;
    totals.decode_context_max = std::max(totals.decode_context_max, end);
  }
  work.resize(count);
  totals.decode_items = totals.emitting_items = static_cast<std::int64_t>(count);
  plan.work = std::move(work);
  plan.repeats.is_set = repeats;
}

void DecodeStreak::Close(StepId latest) {
  for (Sequence* s : members_) {
    s->computed += planned_;
    s->known += returned_;
    s->pending += planned_ - returned_;
    s->in_flight += planned_ - returned_;
    if (planned_ > 0) s->last_step = latest;
  }
  members_.clear();
  with_new_keys_.clear();
}

}  // namespace twin
