#include "sched/decode_streak.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"

namespace twin {

void DecodeStreak::Open(const StepPlan& plan, const DecodeLimits& limits,
                        std::span<const std::int32_t> reversals, std::int32_t block_size,
                        SequenceTable& sequences) {
  CHECK(!open());
  limits_ = limits;
  followed_ = plan.id;
  steps_max_ = std::numeric_limits<std::int64_t>::max();
  planned_ = returned_ = 0;
  members_.resize(plan.work.size());
  first_grows_.resize(plan.work.size());
  for (std::size_t i = 0; i < plan.work.size(); ++i) {
    Sequence& s = sequences[plan.work[i].request];
    members_[i] = &s;
    // Whether anything follows the last token that the client wants is for the policy to decide.
    const std::int64_t outputs =
        std::int64_t{s.prompt_tokens} + s.max_output_tokens - s.known - s.pending;
    steps_max_ = std::min({steps_max_, outputs, std::int64_t{limits.computed_max} - s.computed});
    first_grows_[i] = s.blocks.capacity_tokens - s.computed + 1;
  }
  growing_.Assign(block_size, first_grows_);
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
                            StepPlan& plan) {
  if (planned_ >= steps_max_) return false;
  // Asked first: a policy that continues has moved its own state on, and must not plan this step
  // once more.
  if (!limits_.makes_room && !BlocksSuffice(step.pool())) return false;
  RepeatWork(latest, plan);
  plan.free_blocks_before = step.pool().free() + step.pool().cached();
  if (!policy.ContinueDecodeStreak(step)) return false;
  ++planned_;
  ForEachGrowing([&](const Sequence& s) { CHECK(step.Grow(s, s.computed + planned_)); });
  if (step.traits().publishes_in_steps()) {
    for (const Sequence* s : with_new_keys_) step.PublishPrefix(*s, s->known + returned_);
  }
  with_new_keys_.clear();
  return true;
}

bool DecodeStreak::BlocksSuffice(const KvPool& pool) const {
  std::int32_t blocks = 0;
  growing_.ForEachDue(planned_ + 1, [&](std::size_t i) {
    blocks += members_[i]->blocks.reserved_blocks > 0 ? 0 : 1;
  });
  return pool.free() - blocks >= limits_.free_blocks_min;
}

void DecodeStreak::RepeatWork(const StepPlan& latest, StepPlan& plan) const {
  const StepId id{Index(latest.id) + 1};
  if (Admits(latest)) {
    RepeatWithAdmitted(latest, plan);
    plan.id = id;
    return;
  }
  StepTotals totals = latest.totals;
  totals.decode_context_tokens += totals.decode_items;
  ++totals.decode_context_max;
  if (plan.id < followed_ || Admits(plan)) {
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
  plan.kv.clear();
  plan.totals = totals;
}

void DecodeStreak::RepeatWithAdmitted(const StepPlan& latest, StepPlan& plan) {
  if (&plan != &latest) plan.work = latest.work;
  std::vector<WorkItem> work = std::move(plan.work);
  plan.Clear();
  StepTotals& totals = plan.totals;
  for (WorkItem& item : work) {
    item = {item.request, item.start + item.tokens, 1, 0, Phase::kDecode, /*emits=*/true};
    const std::int64_t end = item.start + 1;
    totals.decode_context_tokens += end;
    totals.decode_context_max = std::max(totals.decode_context_max, end);
  }
  totals.decode_items = totals.emitting_items = static_cast<std::int64_t>(work.size());
  plan.work = std::move(work);
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
