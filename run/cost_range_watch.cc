#include "run/cost_range_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <variant>

namespace twin::run {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int32_t>::max();

std::int64_t LimitOf(std::int32_t limit) { return limit > 0 ? limit : kUnlimited; }

// The largest step that the policy's limits allow, in every respect at once.
StepTotals LargestStep(const Deployment& alike) {
  const std::int64_t tokens = LimitOf(alike.traits.tokens_per_step_max);
  const std::int64_t items = std::min(tokens, LimitOf(alike.traits.sequences_per_step_max));
  const std::int64_t context = LimitOf(alike.context_tokens_max);
  return {.prefill_tokens = tokens - items,
          .prefill_items = items,
          .prefill_context_tokens = items * context,
          .prefill_context_max = context,
          .decode_items = items,
          .decode_context_tokens = items * context,
          .decode_context_max = context};
}

// Tokens of the largest step whose activations the memory plan has room for; no limit where the
// number of blocks is given or the rule reserves nothing for activations. Adds a token for each
// request: TGI measures its memory with prompts alone, and decodes beside them.
std::int64_t PlannedTokens(const Deployment& alike) {
  const sim::MemoryConfig& memory = alike.config.system.memory;
  const bool sized = !alike.capacity.overridden && !memory.activation_bytes &&
                     sim::LeavesRoomForActivations(memory.rule);
  return sized ? memory.max_step_tokens + memory.max_sequences
               : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

CostRangeWatch::CostRangeWatch(const Deployment& deployment) {
  if (deployment.groups.empty()) Add(deployment);
  for (const Deployment& group : deployment.groups) Add(group);
}

void CostRangeWatch::Add(const Deployment& alike) {
  const Replica replica{.cost = alike.cost.get(), .planned_tokens = PlannedTokens(alike)};
  replicas_.insert(replicas_.end(), static_cast<std::size_t>(alike.config.system.replicas),
                   replica);
  const bool covered = replica.cost->Covers(LargestStep(alike));
  // Groups may have cost models of different kinds; the first that has a range is named.
  if (!covered && model_.empty()) model_ = sim::TraitsOf(alike.config.cost).name;
  needed_ =
      needed_ || !covered || LimitOf(alike.traits.tokens_per_step_max) > replica.planned_tokens;
}

void CostRangeWatch::Report(RunControl& control) const {
  Replica all;
  for (const Replica& replica : replicas_) {
    all.steps += replica.steps;
    all.outside += replica.outside;
    all.unplanned += replica.unplanned;
    all.largest = std::max(all.largest, replica.largest);
  }
  if (all.outside > 0) {
    control.OnWarning(fmt::format(
        "{} of {} steps were larger than any step that cost.{} was measured on: their times are "
        "extrapolated",
        all.outside, all.steps, model_));
  }
  if (all.unplanned > 0) {
    control.OnWarning(fmt::format(
        "{} of {} steps had more tokens than system.memory.max_step_tokens, up to {}: the KV cache "
        "leaves no room for their activations",
        all.unplanned, all.steps, all.largest));
  }
}

}  // namespace twin::run
