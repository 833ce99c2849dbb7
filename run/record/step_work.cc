#include "run/record/step_work.h"

#include <cstddef>

namespace twin {

void StepWork::Add(const EndedStep& step) {
  const StepTotals& totals = step.plan.totals;
  // The totals count tokens that verify drafts as prefill.
  const std::int64_t verified = totals.draft_items + totals.draft_tokens;
  ++counts[kSteps];
  counts[kPrefillTokens] += totals.prefill_tokens - verified;
  counts[kDecodeTokens] += totals.decode_items + verified;
  counts[kPaddingTokens] += totals.padding_tokens;
  counts[kRecomputedTokens] += step.recomputed_tokens;
  counts[kSequences] += static_cast<std::int64_t>(step.plan.work.size());
  for (const Preemption& preemption : step.plan.preempted) {
    ++counts[preemption.how == Preemption::How::kSwap ? kSwaps : kRecomputes];
  }
  if (totals.draft_items > 0) {
    counts[kDraftItems] += totals.draft_items;
    counts[kDraftTokens] += totals.draft_tokens;
    for (const ItemOutcome& outcome : step.outcomes) {
      counts[kAcceptedDrafts] += outcome.accepted_drafts;
    }
  }
  busy.Add(step);
}

StepWork& StepWork::operator+=(const StepWork& other) {
  for (std::size_t i = 0; i < kCounts; ++i) counts[i] += other.counts[i];
  busy.total += other.busy.total;
  busy.until = std::max(busy.until, other.busy.until);
  return *this;
}

void StepWork::Summarise(const MetricWriter& out) const {
  const std::int64_t computed = counts[kPrefillTokens] + counts[kDecodeTokens];
  const std::int64_t charged = computed + counts[kPaddingTokens];
  const double steps = static_cast<double>(counts[kSteps]);
  out.Add("steps", counts[kSteps], "steps", "steps that ended, those without work too", "",
          kByGroup);
  out.Add("preemptions", counts[kRecomputes] + counts[kSwaps], "preemptions",
          "requests that lost their memory while running", "recomputes + swaps");
  out.Add("recomputes", counts[kRecomputes], "preemptions",
          "preemptions that dropped the KV cache of the request");
  out.Add("swaps", counts[kSwaps], "preemptions",
          "preemptions that moved the KV cache to the host");
  out.Add("computed_prefill_tokens", counts[kPrefillTokens], "tokens",
          "tokens of prefill items, recomputed ones too", "", kByGroup);
  out.Add("computed_decode_tokens", counts[kDecodeTokens], "tokens",
          "tokens of decode items, drafts included", "", kByGroup);
  out.Add("recomputed_tokens", counts[kRecomputedTokens], "tokens",
          "tokens computed again after a preemption");
  out.Add("preemption_overhead", Ratio(counts[kRecomputedTokens], computed), "share",
          "share of the computed tokens that were recomputed",
          "recomputed_tokens / (computed_prefill_tokens + computed_decode_tokens)");
  out.Add("padding_share", Ratio(counts[kPaddingTokens], charged), "share",
          "share of the charged tokens that are padding",
          "padding / (computed_prefill_tokens + computed_decode_tokens + padding)");
  out.Add("mean_batch_tokens", Ratio(charged, steps), "tokens",
          "charged tokens per step, padding included",
          "(computed_prefill_tokens + computed_decode_tokens + padding) / steps");
  out.Add("mean_batch_sequences", Ratio(counts[kSequences], steps), "requests",
          "work items per step", "work items / steps");
  if (counts[kDraftItems] == 0 && !out.is_catalog()) return;
  const std::int64_t accepted = counts[kAcceptedDrafts];
  out.Add("spec_decode_num_drafts", counts[kDraftItems], "items",
          "work items that verified drafts; with drafts only");
  out.Add("spec_decode_draft_tokens", counts[kDraftTokens], "tokens",
          "drafts that were verified; with drafts only");
  out.Add("spec_decode_accepted_tokens", accepted, "tokens",
          "drafts that were accepted, also behind the end of an output; with drafts only");
  out.Add("spec_decode_acceptance_rate", Ratio(accepted, counts[kDraftTokens]), "share",
          "share of the drafts that were accepted; with drafts only",
          "spec_decode_accepted_tokens / spec_decode_draft_tokens");
  out.Add("spec_decode_acceptance_length", 1.0 + Ratio(accepted, counts[kDraftItems]), "tokens",
          "tokens per work item that verified drafts; with drafts only",
          "1 + spec_decode_accepted_tokens / spec_decode_num_drafts");
}

void LoadOverTime::Add(TimePoint from, TimePoint to, const Load& load) {
  const double span = Seconds(to - from);
  seconds += span;
  waiting += span * load.waiting;
  running += span * load.running;
  swapped += span * load.swapped;
  blocks += span * load.used_blocks;
  peak.waiting = std::max(peak.waiting, load.waiting);
  peak.running = std::max(peak.running, load.running);
  peak.used_blocks = std::max(peak.used_blocks, load.used_blocks);
  until = to;
}

void LoadOverTime::Summarise(const MetricWriter& out, Duration busy) const {
  out.Add("run_seconds", Seconds(until), "s",
          "the run's clock at its last event; 0 is the start of the run");
  out.Add("simulated_seconds", Seconds(until), "s",
          "the same as run_seconds, in a real run too: the name that older scripts read");
  out.Add("busy_share", Ratio(Seconds(busy), seconds * replicas), "share",
          "share of the time in which at least one step was on the device; mean over replicas",
          "union of the steps' times / time", kByGroup);
  out.Add("mean_kv_used_share", Ratio(blocks, seconds * kv_blocks), "share",
          "KV blocks held or reserved, mean over time", "time average of used blocks / kv_blocks");
  out.Add("max_kv_used_share", Ratio(peak.used_blocks, kv_blocks), "share",
          "KV blocks held or reserved, maximum", "max used blocks / kv_blocks");
  out.Add("mean_running", Ratio(running, seconds), "requests", "running requests, mean over time");
  out.Add("max_running", peak.running, "requests", "running requests, maximum");
  out.Add("mean_waiting", Ratio(waiting, seconds), "requests", "waiting requests, mean over time");
  out.Add("max_waiting", peak.waiting, "requests", "waiting requests, maximum");
  out.Add("mean_swapped", Ratio(swapped, seconds), "requests",
          "requests swapped out to the host, mean over time");
}

}  // namespace twin
