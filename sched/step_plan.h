// A plan: what one step computes and how it changes the KV cache. Plans are all that an engine
// sends to its world.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// Prefill: the request has emitted nothing since its latest admission (prompt chunks, and the
// recomputation of prompt and generated tokens after a preemption). Decode: it has.
enum class Phase : std::uint8_t { kPrefill, kDecode };

// Compute positions [start, start + tokens) of a request.
struct WorkItem {
  RequestId request{};
  std::int32_t start = 0;
  std::int32_t tokens = 0;         // >= 1
  std::int32_t padded_tokens = 0;  // row length in a padded batch; 0 = not padded
  Phase phase = Phase::kPrefill;
  bool emits = false;  // reaches the last known token, so that the step yields a new one
  // The last ones of `tokens` that are guesses, which the step verifies (speculative decoding). The
  // item yields the accepted drafts and one token more. Drafts of a prefill are padding: they are
  // computed and never accepted.
  std::uint8_t drafts = 0;

  bool operator==(const WorkItem&) const = default;
};

// One change of the KV cache, applied in order before the step's work.
struct KvOperation {
  enum class Kind : std::uint8_t {
    kAllocate,  // `block` becomes the request's next block
    kAttach,    // `block`, already full, becomes the request's next block too (prefix hit)
    kRelease,   // the request gives up all its blocks
    kSwapOut,   // copy device `block` to host block `other`, give up `block`
    kSwapIn,    // copy host block `other` to device `block`, give up `other`
    kReplace,   // `block`, of the same content, takes the place of the request's block `other`
    // Requests with a table for each KV group (KvGroups), whose number is `other`. kRelease gives
    // up the blocks of all of them.
    kAllocateIn,  // `block` becomes the table's next block
    kAttachIn,    // `block`, already full, becomes the table's next block too
    kSkipIn,      // the table's next entry has no block: nothing of it is needed
    kDropFrom,    // the table gives up `block`, whose entry has none from now on
  };
  Kind kind{};
  RequestId request{};
  BlockId block = BlockId::kNone;
  BlockId other = BlockId::kNone;

  bool operator==(const KvOperation&) const = default;
};

struct Preemption {
  enum class How : std::uint8_t { kRecompute, kSwap };
  RequestId request{};
  How how{};

  bool operator==(const Preemption&) const = default;
};

enum class RejectReason : std::uint8_t {
  kTooLongForModel,   // longer than the policy's prompt or context limit
  kTooLargeForCache,  // could not be held even by an empty KV cache
  kOverloaded,        // came when as many requests were in the system as the policy allows
};

struct Rejection {
  RequestId request{};
  RejectReason reason{};

  bool operator==(const Rejection&) const = default;
};

// Tokens that an admitted request took from the prefix cache; its computing starts there.
struct PrefixHit {
  RequestId request{};
  std::int32_t tokens = 0;

  bool operator==(const PrefixHit&) const = default;
};

// Sums and maxima over a plan's work, updated while the plan is built; enough for closed-form cost
// models. Attention pairs are (query, key) combinations: a causal chunk of n tokens at `start` has
// n * start + n * (n + 1) / 2.
struct StepTotals {
  std::int64_t prefill_tokens = 0;
  std::int64_t prefill_items = 0;
  std::int64_t prefill_context_tokens = 0;  // sum of start + tokens: keys read
  std::int64_t prefill_attention_pairs = 0;
  std::int64_t prefill_context_max = 0;    // largest start + tokens; 0 without such items
  std::int64_t decode_items = 0;           // = decode tokens
  std::int64_t decode_context_tokens = 0;  // sum of start + 1: keys read
  std::int64_t decode_context_max = 0;     // largest start + 1; 0 without decodes
  std::int64_t emitting_items = 0;
  std::int64_t padding_tokens = 0;  // computed and thrown away (padded batches)
  std::int64_t draft_items = 0;     // with drafts: they have draft_items + draft_tokens tokens
  std::int64_t draft_tokens = 0;

  [[nodiscard]] std::int64_t tokens() const {
    return prefill_tokens + decode_items + padding_tokens;
  }
  // An item that emits needs the logits of its last known token and of each of its drafts.
  [[nodiscard]] std::int64_t logit_rows() const { return emitting_items + draft_tokens; }
  // Makes these totals of decodes alone those of the same decodes `steps` steps later.
  void Repeat(std::int64_t steps) {
    decode_context_tokens += steps * decode_items;
    decode_context_max += steps;
  }
  bool operator==(const StepTotals&) const = default;
};

// Says nothing that does not follow from the rest of a plan: equal plans may differ in it.
struct PlanHint {
  bool is_set = false;
  bool operator==(const PlanHint& /*other*/) const { return true; }
};

// Filled by an engine; valid until the StepFinished of that step has been handled.
// Swaps appear twice: block by block in `kv`, and by request in `preempted` (kSwap) or `resumed`.
// A plan without work is possible: preemptions, releases or rejections also take a step.
struct StepPlan {
  StepId id{};
  std::int32_t replica = 0;  // whose step it is
  // For readers who keep something of the replica's plan before this one: the work is one token
  // further of the same requests in the same order, and the lists after `work` are empty, but for
  // the same padding rows. Not set: it may be so nevertheless.
  PlanHint repeats;
  std::vector<KvOperation> kv;
  std::vector<WorkItem> work;           // in batch order
  std::vector<Preemption> preempted;    // in order
  std::vector<RequestId> admitted;      // from waiting (first time or again), in order
  std::vector<RequestId> resumed;       // swapped in, in order
  std::vector<RequestId> released;      // finished earlier; their blocks are released only now
  std::vector<RequestId> padding_rows;  // finished rows still computed (padded batches)
  std::vector<Rejection> rejected;
  std::vector<PrefixHit> hits;  // one per admission when prefix caching is on
  StepTotals totals;
  // Blocks neither held nor reserved (a prefix tree may keep them), at the start and at the end of
  // planning; host blocks at the end.
  std::int32_t free_blocks_before = 0;
  std::int32_t free_blocks = 0;
  std::int32_t free_host_blocks = 0;
  // Requests in the engine when planning ended.
  std::int32_t waiting = 0;
  std::int32_t running = 0;
  std::int32_t swapped = 0;

  [[nodiscard]] bool empty() const {
    return work.empty() && preempted.empty() && admitted.empty() && resumed.empty() &&
           released.empty() && rejected.empty() && padding_rows.empty();
  }
  // Empties the plan but keeps its allocated memory and its replica.
  void Clear();
  bool operator==(const StepPlan&) const = default;
};

// The most drafts that an item can have; that of vLLM.
constexpr std::int32_t kDraftsMax = 128;

// Whether the totals count the item as a decode; they count every other item as prefill, also one
// that verifies drafts: it costs what a chunk of a prompt costs.
[[nodiscard]] inline bool IsDecode(const WorkItem& item) {
  return item.phase == Phase::kDecode && item.tokens == 1;
}

// Sets the maxima in `plan.totals` from `plan.work`, in time linear in the number of items.
void RecomputeContextMaxima(StepPlan& plan);

}  // namespace twin
