// What worlds tell an engine.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "core/ids.h"
#include "core/time.h"
#include "sched/request.h"

namespace twin {

enum class FinishReason : std::uint8_t {
  kNone,    // goes on
  kStop,    // end of sequence, earlier than the client's limit
  kLength,  // max_output_tokens, or the model's context, reached
};

// How an item of a step ended, where that differs from the expected: an item that emits brings one
// token and goes on, an item that does not emit brings none.
struct ItemOutcome {
  RequestId request{};
  std::int32_t emitted_tokens = 0;
  FinishReason finish = FinishReason::kNone;

  bool operator==(const ItemOutcome&) const = default;
};

// A block of generated tokens became full; `key` names its content and everything before it.
struct BlockFilled {
  RequestId request{};
  BlockKey key{};

  bool operator==(const BlockFilled&) const = default;
};

// A step ran to its end and its tokens are on the host. Steps end in the order of their launch.
struct StepFinished {
  StepId step{};
  TimePoint started;                      // when the device began it; the end is the instant's now
  std::span<const ItemOutcome> outcomes;  // exceptions only, in the order of the plan's work
  std::span<const BlockFilled> filled;    // in the order of the plan's work
};

// The client went away. The engine keeps the request's memory while a step with it is in flight.
struct RequestCancelled {
  RequestId request{};
};

struct RequestArrived {
  Request request;
};

// Nothing but time has passed: a moment at which the engine is to look at its queues again.
struct WakeUp {};

// The order of the alternatives is the order in which events of one instant are told: results and
// freed memory first, then departures, then arrivals.
using Event = std::variant<StepFinished, RequestCancelled, RequestArrived, WakeUp>;

// Everything that happened at one moment. The events, and what their spans show, belong to the
// world and live until its next Advance(). No events: nothing more will ever happen.
struct Instant {
  TimePoint now;
  std::span<const Event> events;
};

}  // namespace twin
