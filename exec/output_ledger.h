// Tracks the output of requests: which token ends a request, and which one fills a block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id_window.h"
#include "exec/backend.h"
#include "sched/event.h"

namespace twin::exec {

// When an output ends: after `tokens_max` tokens, an end token or a stop token, whichever is first.
struct OutputEnd {
  std::int32_t tokens_max = 0;                  // ends here
  FinishReason reason = FinishReason::kLength;  // with this reason
  bool heeds_end_tokens = false;                // ends at an end token of the model, too
  std::vector<std::int32_t> stop_tokens = {};   // each of them ends it, too
};

enum class TokenFate : std::uint8_t {
  kDropped,   // its request has ended since the step was launched
  kRepeated,  // computed before: not fresh
  kTaken,
  kLast,  // taken, and the last one of its request
};

// Counts the output of open requests. A block is named by its tokens and all tokens before it, so
// that equal names mean equal content.
class OutputLedger {
 public:
  // `named_block_size`: tokens that a key stands for; 0 = there are no keys.
  OutputLedger(std::vector<std::int32_t> end_tokens, std::int32_t named_block_size)
      : end_tokens_(std::move(end_tokens)), named_block_size_(named_block_size) {}

  // Replaces `prompt_keys` by the keys of the prompt's full blocks. Blocks of different salts have
  // different names. REQUIRES: ids rise.
  void Open(RequestId id, std::span<const std::int32_t> prompt, const OutputEnd& end,
            std::vector<BlockKey>& prompt_keys, std::uint64_t salt = 0);
  // Closes a rejected or cancelled request; tokens that are still sampled for it are dropped.
  // REQUIRES: it is open.
  void Close(RequestId id) { outputs_.Close(id); }

  // Counts a token and appends the events that an engine receives for it. The last token closes its
  // request.
  TokenFate Take(const SampledToken& sampled, std::vector<ItemOutcome>& outcomes,
                 std::vector<BlockFilled>& filled);

  // Merges the outcomes from index `first` on, which Take() appended for one item with drafts, into
  // one outcome of `taken` tokens; appends an outcome if there is none. REQUIRES: taken >= 1.
  static void Join(const ItemDrafts& drafts, std::int32_t taken, std::size_t first,
                   std::vector<ItemOutcome>& outcomes);

  [[nodiscard]] bool contains(RequestId id) const { return outputs_.contains(id); }
  [[nodiscard]] std::size_t open() const { return outputs_.size(); }

 private:
  struct Output {
    OutputEnd end;
    std::int32_t tokens = 0;
    std::uint64_t content = 0;     // name of all tokens so far
    std::int32_t open_tokens = 0;  // in the block that is not full
  };

  // True if the token filled a block, which output.content then names.
  bool Append(std::int32_t token, Output& output) const;

  std::vector<std::int32_t> end_tokens_;
  std::int32_t named_block_size_;
  IdWindow<Output> outputs_;
};

}  // namespace twin::exec
