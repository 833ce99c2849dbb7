// Tracks the output of requests: which token ends a request, and which one fills a block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id_window.h"
#include "exec/backend.h"
#include "sched/event.h"

namespace twin::exec {

// Where an output ends.
struct OutputEnd {
  std::int32_t tokens_max = 0;                  // behind so many,
  FinishReason reason = FinishReason::kLength;  // for this reason,
  bool heeds_end_tokens = false;                // or behind an end token, if that comes first,
  std::vector<std::int32_t> stop_tokens = {};   // or behind one of these
};

enum class TokenFate : std::uint8_t {
  kDropped,  // issued before its request was known to have ended
  kRepeated,
  kTaken,
  kLast,  // and taken
};

// Counts the output of open requests. Blocks are named by the tokens in them and all before: equal
// names mean equal content.
class OutputLedger {
 public:
  // `named_block_size`: tokens that a key stands for; 0 = there are no keys.
  OutputLedger(std::vector<std::int32_t> end_tokens, std::int32_t named_block_size)
      : end_tokens_(std::move(end_tokens)), named_block_size_(named_block_size) {}

  // Keys of the prompt's full blocks replace those in `prompt_keys`. Blocks of different salts have
  // different names. REQUIRES: ids rise.
  void Open(RequestId id, std::span<const std::int32_t> prompt, const OutputEnd& end,
            std::vector<BlockKey>& prompt_keys, std::uint64_t salt = 0);
  // It was rejected or cancelled; what is still sampled for it is dropped. REQUIRES: it is open.
  void Close(RequestId id) { outputs_.Close(id); }

  // Appends what an engine is to be told. A last token closes its request.
  TokenFate Take(const SampledToken& sampled, std::vector<ItemOutcome>& outcomes,
                 std::vector<BlockFilled>& filled);

  // Makes what Take appended for one item, from index `first` on, the outcome of an item of which
  // `taken` tokens were taken; appends it if there is none. REQUIRES: taken >= 1.
  static void Join(const ItemDrafts& drafts, std::int32_t taken, std::size_t first,
                   std::vector<ItemOutcome>& outcomes);

  [[nodiscard]] bool contains(RequestId id) const { return outputs_.contains(id); }
  [[nodiscard]] std::size_t open() const { return outputs_.size(); }

 private:
  struct Output {
    OutputEnd end;
    std::int32_t tokens = 0;
    std::uint64_t content = 0;     // names everything so far
    std::int32_t open_tokens = 0;  // in the block that is not full
  };

  // True if the token filled a block, which output.content then names.
  bool Append(std::int32_t token, Output& output) const;

  std::vector<std::int32_t> end_tokens_;
  std::int32_t named_block_size_;
  IdWindow<Output> outputs_;
};

}  // namespace twin::exec
