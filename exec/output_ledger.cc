#include "exec/output_ledger.h"

#include <algorithm>

#include "core/hash.h"

namespace twin::exec {

void OutputLedger::Open(RequestId id, std::span<const std::int32_t> prompt, const OutputEnd& end,
                        std::vector<BlockKey>& prompt_keys, std::uint64_t salt) {
  Output& output = outputs_.Open(id);
  output = {.end = end, .content = salt};
  prompt_keys.clear();
  if (named_block_size_ == 0) return;
  for (const std::int32_t token : prompt) {
    if (Append(token, output)) prompt_keys.push_back(SharedKey(output.content));
  }
}

bool OutputLedger::Append(std::int32_t token, Output& output) const {
  output.content = MixWords(output.content, static_cast<std::uint64_t>(token) + 1);
  if (++output.open_tokens < named_block_size_) return false;
  output.open_tokens = 0;
  return true;
}

void OutputLedger::Join(const ItemDrafts& drafts, std::int32_t taken, std::size_t first,
                        std::vector<ItemOutcome>& outcomes) {
  if (outcomes.size() == first) outcomes.push_back({.request = drafts.request});
  ItemOutcome& outcome = outcomes.back();
  outcome.emitted_tokens = taken;
  outcome.accepted_drafts = drafts.accepted;
  if (outcome.finish == FinishReason::kNone) outcome.new_drafts = drafts.proposed;
}

TokenFate OutputLedger::Take(const SampledToken& sampled, std::vector<ItemOutcome>& outcomes,
                             std::vector<BlockFilled>& filled) {
  Output* const output = outputs_.Find(sampled.request);
  if (output == nullptr) return TokenFate::kDropped;
  if (!sampled.fresh) {
    outcomes.push_back({sampled.request, 0, FinishReason::kNone});
    return TokenFate::kRepeated;
  }
  ++output->tokens;
  if (named_block_size_ > 0 && Append(sampled.token, *output)) {
    filled.push_back({sampled.request, SharedKey(output->content)});
  }
  const OutputEnd& end = output->end;
  const auto in = [&](const std::vector<std::int32_t>& tokens) {
    return std::find(tokens.begin(), tokens.end(), sampled.token) != tokens.end();
  };
  const bool stops = (end.heeds_end_tokens && in(end_tokens_)) || in(end.stop_tokens);
  if (!stops && output->tokens < end.tokens_max) return TokenFate::kTaken;
  outcomes.push_back({sampled.request, 1, stops ? FinishReason::kStop : end.reason});
  outputs_.Close(sampled.request);
  return TokenFate::kLast;
}

}  // namespace twin::exec
