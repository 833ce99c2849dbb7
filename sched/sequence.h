// A sequence: a request inside the engine, with its progress and its blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "core/time.h"
#include "sched/cache/block_table.h"

namespace twin {

enum class SequenceState : std::uint8_t {
  kWaiting,   // in a queue, holds no device blocks, unless a transfer fills them
  kRunning,   // admitted: holds device blocks (or a reservation)
  kSwapped,   // its blocks are on the host
  kFinished,  // ended; kept until its last step in flight returns and its blocks are released
};

// Where the keys and values of a request lie that another replica has prefilled.
enum class RemoteKv : std::uint8_t {
  kNone,       // here, or nowhere
  kElsewhere,  // at the other replica
  kArriving,   // blocks for them are taken here; the transfer is under way
  kArrived,    // here, in blocks that the waiting sequence holds
};

// With several KV groups `blocks` has the capacity alone; GroupTables has the blocks.
// Written by Engine and StepBuilder; policies only read it. The members that a decode reads and
// writes, up to the numbers of `blocks`, lie in one cache line.
struct alignas(64) Sequence {
  RequestId id{};
  std::int32_t prompt_tokens = 0;
  std::int32_t max_output_tokens = 0;
  std::int32_t known = 0;      // prompt + output tokens returned to the engine
  std::int32_t computed = 0;   // tokens whose K/V exist once all issued steps have ended
  std::int32_t pending = 0;    // output tokens issued, not yet returned, if all drafts are accepted
  std::int32_t in_flight = 0;  // steps issued, not yet ended, that carry this sequence
  std::int32_t stale_in_flight = 0;  // output tokens issued before a preemption, not yet returned
  SequenceState state = SequenceState::kWaiting;
  bool decodes = false;  // an emitting item was issued since the latest admission
  bool admitted_once = false;
  bool prefill_only = false;  // its first token ends it here; another replica decodes it
  RemoteKv remote = RemoteKv::kNone;
  StepId last_step{};  // the latest step that carries it
  BlockTable blocks;

  std::int32_t drafts = 0;         // offered to be verified by the next item
  std::int32_t remote_tokens = 0;  // computed at the other replica, if `remote` says so
  std::int32_t priority = 0;
  std::uint32_t tenant = 0;
  bool ignore_eos = false;  // only max_output_tokens ends its output
  std::int32_t predicted_output_tokens = -1;
  std::int32_t preemptions = 0;
  TimePoint arrival;
  // As Request::prefix_keys, but of all known tokens.
  std::vector<BlockKey> keys;

  // Tokens left to compute: the rest of a prompt, or 1 for a decode. Counts tokens in flight as
  // known; `known - computed` does not, and is the same while none are.
  [[nodiscard]] std::int32_t left() const { return known + pending - computed; }

  // True if the tokens in flight reach the output limit: nothing more may be scheduled.
  [[nodiscard]] bool certain_to_end() const {
    return pending > 0 && known + 1 >= prompt_tokens + max_output_tokens;
  }
};

using SequenceTable = IdMap<Sequence>;

}  // namespace twin
