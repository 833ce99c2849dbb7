// Events: what a world reports to an engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include "core/ids.h"
#include "core/time.h"
#include "sched/request.h"

namespace twin {

enum class FinishReason : std::uint8_t {
  kNone,    // not finished
  kStop,    // end of sequence, earlier than the client's limit
  kLength,  // max_output_tokens, or the model's context, reached
};

// The result of a work item, if it is not the expected one. Expected: an item that emits yields one
// token, its request continues, and nothing is drafted; an item that does not emit yields none.
struct ItemOutcome {
  RequestId request{};
  // At most 1 + the item's drafts. Tokens after the end of the output do not count.
  std::int32_t emitted_tokens = 0;
  FinishReason finish = FinishReason::kNone;
  std::int32_t accepted_drafts = 0;  // of the item, also after the end; for metrics alone
  std::int32_t new_drafts = 0;       // offered for the request's next item

  bool operator==(const ItemOutcome&) const = default;
};

// A prefix that ends in generated tokens got its key: as many tokens more as a key stands for
// (KvPoolConfig::key_tokens) are known. `key` identifies all content up to there.
struct BlockFilled {
  RequestId request{};
  BlockKey key{};

  bool operator==(const BlockFilled&) const = default;
};

// The keys and values of a request lie in the blocks of another replica (kv_transfer.h).
struct TransferFinished {
  RequestId request{};
  std::int32_t from = 0;
  std::int32_t to = 0;
  TimePoint started;  // when the first byte was sent; the end is the instant's now
};

// A step has ended and its tokens are on the host. Steps of a replica end in the order in which
// they were launched.
struct StepFinished {
  StepId step{};
  TimePoint started;                      // when the device began it; the end is the instant's now
  std::span<const ItemOutcome> outcomes;  // unexpected ones only, in the order of the plan's work
  std::span<const BlockFilled> filled;    // in the order of the plan's work
  std::int32_t replica = 0;               // whose step it is
};

// The client disconnected. The engine keeps the request's blocks while a step with it is in flight,
// unless PolicyTraits::frees_in_flight.
struct RequestCancelled {
  RequestId request{};
  // The client has its whole answer: a stop string was found in the text, which the engine does not
  // see. For metrics alone: the request counts as completed if it has output.
  bool answered = false;
};

// request.arrival is when the client sent the request; the engine learns of it now.
struct RequestArrived {
  Request request;
  // Delays on the client's side, not for decisions: from a token's instant until the client has it,
  // and how long the client held the request back before it sent it.
  Duration response_delay{0};
  Duration client_wait{0};
};

// Whether every unexpected outcome is the one token that ends its request.
[[nodiscard]] inline bool OnlyEnds(std::span<const ItemOutcome> outcomes) {
  return std::ranges::all_of(outcomes, [](const ItemOutcome& outcome) {
    return outcome.finish != FinishReason::kNone && outcome.emitted_tokens == 1;
  });
}

// The engine asked to plan again at this time, or a world looks up for reasons of its own.
struct WakeUp {};

// Events of one instant come in the order of these alternatives: results and freed memory first
// (steps of several replicas in the order of their indices), then cancellations, then arrivals.
using Event =
    std::variant<TransferFinished, StepFinished, RequestCancelled, RequestArrived, WakeUp>;

// All events of one moment. The world owns the events and the data of their spans, until its next
// Advance(). An instant without events ends the run.
struct Instant {
  TimePoint now;
  std::span<const Event> events;
};

}  // namespace twin
