// A run request by request and step by step, as a RequestTracker derives it from instants and
// plans.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/ids.h"
#include "core/time.h"
#include "sched/event.h"
#include "sched/step_plan.h"

namespace twin {

enum class RequestStatus : std::uint8_t {
  kWaiting,
  kRunning,
  kSwapped,
  kCompleted,
  kRejected,
  kCancelled,  // and not answered
};

// Names in CSV files and summaries, by RejectReason.
inline constexpr std::array<std::string_view, 3> kRejectReasonNames = {
    "too_long_for_model", "too_large_for_cache", "overloaded"};

// One request. Times are the engine's; a client receives a token response_delay later.
struct RequestLife {
  RequestId id{};
  std::int32_t replica = -1;  // where it was first admitted or was rejected; -1: nowhere yet
  RequestStatus status = RequestStatus::kWaiting;
  bool measured = true;                // inside the measured window
  std::int32_t output_tokens = 0;      // generated
  TimePoint last_token = kTimeNever;   // kTimeNever: none yet
  Duration longest_gap{0};             // longest ITL
  TimePoint first_token = kTimeNever;  // kTimeNever: none
  TimePoint arrival;                   // when the client sent it
  Duration client_wait{0};             // how long the client held it back before that
  TimePoint reached;                   // when the engine was told of it
  Duration response_delay{0};          // from the engine to the client
  TimePoint scheduled = kTimeNever;    // when first part of a plan; kTimeNever: never
  TimePoint ended;  // when it completed (its last token is visible), was rejected or cancelled
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;  // taken from the prefix cache at the first admission
  std::int32_t preemptions = 0;
  std::int32_t priority = 0;
  std::uint32_t tenant = 0;
  std::int32_t max_output_tokens = 0;
  std::uint64_t session = 0;     // 0: none
  RejectReason reject_reason{};  // if it was rejected
  bool streamed = true;          // its client gets tokens one by one; false: one piece
  bool output_cut = false;       // ended below max_output_tokens: its context was full

  [[nodiscard]] bool has_tokens() const { return first_token != kTimeNever; }
  // Whether its client can measure an ITL.
  [[nodiscard]] bool has_gaps() const { return streamed && has_tokens() && output_tokens > 1; }
  // Times of its first and last token at the client. REQUIRES: has_tokens(), and that the request
  // completed.
  [[nodiscard]] TimePoint first_received() const { return first_token + response_delay; }
  [[nodiscard]] TimePoint last_received() const { return ended + response_delay; }
  // Time at which its client had the answer or the refusal, or went away. REQUIRES: the request has
  // ended.
  [[nodiscard]] TimePoint left() const {
    return status == RequestStatus::kCancelled ? ended : last_received();
  }
};

// A step that has ended. Steps overlap if several are in flight; they end in order.
struct EndedStep {
  const StepPlan& plan;
  TimePoint planned;
  TimePoint started;
  TimePoint finished;
  std::int64_t recomputed_tokens = 0;  // tokens of the step that were computed before and lost
  std::span<const ItemOutcome> outcomes;
  // totals.decode_context_tokens of the plan, which steps of a decode streak do not write there.
  std::int64_t decode_context_tokens = 0;
};

// The state of all engines together between two instants.
struct Load {
  std::int32_t waiting = 0;
  std::int32_t running = 0;
  std::int32_t swapped = 0;
  std::int32_t used_blocks = 0;  // held or reserved

  bool operator==(const Load&) const = default;
};

// Called by a RequestTracker in the order of the run. All arguments are borrowed for the call.
class RunListener {
 public:
  virtual ~RunListener() = default;

  // Whether it does without OnPlanned() for steps of decode streaks, and reads nothing of the plan
  // of such a step that ends but what all steps of the streak have in common: no starts, context
  // lengths and KV operations.
  [[nodiscard]] virtual bool takes_streaks() const { return false; }

  virtual void OnArrived(TimePoint /*now*/, const RequestLife& /*life*/) {}

  virtual void OnPlanned(TimePoint /*now*/, const StepPlan& /*plan*/) {}

  // `count` tokens of measured requests became visible with an ITL of `gap`.
  virtual void OnGaps(TimePoint /*now*/, Duration /*gap*/, std::int64_t /*count*/) {}

  virtual void OnStepEnded(const EndedStep& /*step*/) {}

  // The load was `load` from `from` until `to`; from < to.
  virtual void OnLoad(TimePoint /*from*/, TimePoint /*to*/, const Load& /*load*/) {}

  // The request left: life.status says how.
  virtual void OnEnded(const RequestLife& /*life*/) {}
};

}  // namespace twin
