// Speculative decoding, as far as a scheduler knows of it: how drafts are made, and how many.
#pragma once

#include <cstdint>

namespace twin {

// The proposer of drafts.
enum class SpecMethod : std::uint8_t {
  kNgram,       // the tokens that followed the latest ones earlier in prompt and output
  kEagle,       // a head of the model itself; its keys and values are in the request's blocks
  kMtp,         // the model's module of multi-token prediction, in the request's blocks
  kDraftModel,  // a smaller model; its keys and values are in the request's blocks, too
};

struct SpeculationRules {
  SpecMethod method = SpecMethod::kNgram;
  std::int32_t num_speculative_tokens = 0;  // drafts of a request per step, at most; 0 = none

  [[nodiscard]] bool on() const { return num_speculative_tokens > 0; }
  // Slots that the proposer fills after the tokens of a step.
  [[nodiscard]] std::int32_t lookahead_tokens() const {
    return method == SpecMethod::kNgram ? 0 : num_speculative_tokens;
  }
  // Tokens that the proposer adds to each work item in its first pass.
  [[nodiscard]] std::int32_t draft_slots() const {
    return on() && method == SpecMethod::kDraftModel ? 1 : 0;
  }
  // The proposer sees the hidden states of the model: its cache depends on the token after each.
  [[nodiscard]] bool reads_hidden_states() const {
    return method == SpecMethod::kEagle || method == SpecMethod::kMtp;
  }
  bool operator==(const SpeculationRules&) const = default;
};

}  // namespace twin
