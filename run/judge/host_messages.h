// Messages between the judge and the process of a policy.
//
// The process holds an engine of its own with the policy. The judge passes on what happened and
// asks for a plan; the answer is the list of the policy's calls, which the judge's engine repeats
// and checks. So nothing crosses but what a scheduler may know: no true length, no seed, no path.
#pragma once

#include <cstdint>
#include <string>

#include "config/policy_file.h"
#include "core/time.h"
#include "run/judge/message_pipe.h"
#include "sched/step_calls.h"

namespace twin::run {

enum class HostMessage : std::uint8_t {
  // To the process.
  kPing,   // anything
  kLoad,   // PutFile
  kBegin,  // a run that replaces the one before: KvPoolConfig
  kPlan,   // now, then events up to the end
  // From the process.
  kHello,    // comes unasked, before any code of the file runs. bool: FilterSystemCalls() did
  kReady,    // answers kPing and kBegin
  kTraits,   // PutTraits (judged_traits.h)
  kPlanned,  // PutAnswer, PutCalls
  kFailure,  // FailureKind, text
};

// Kinds of events behind kPlan. The other events of event.h do not reach an engine alone.
enum class HostEvent : std::uint8_t { kStepFinished, kCancelled, kArrived };

enum class FailureKind : std::uint8_t {
  kRefused,    // the file holds no policy that can be loaded
  kException,  // the policy failed
  kInvariant,  // a plan breaks an invariant
  kTooSlow,    // its process used up its CPU time, or gives no answer
  kEnded,      // its process ended, or sends no valid message
};

// The fixed part of an answer to kPlan.
struct PlanAnswer {
  bool has_plan = false;
  std::int64_t wake_at = Nanoseconds(kTimeNever);
  std::int32_t free_blocks = 0;  // after the plan; both engines must agree
};

inline constexpr const char* kTraitsChange =
    "the traits of the policy change from one process or run to the next";

// Every Get function throws BadMessage for bytes that its Put function does not write.
void PutFile(MessageWriter& writer, const PolicyFile& file);
PolicyFile GetFile(MessageReader& reader);

void PutAnswer(MessageWriter& writer, const PlanAnswer& answer);
PlanAnswer GetAnswer(MessageReader& reader);

void PutCalls(MessageWriter& writer, const StepCalls& calls);
void GetCalls(MessageReader& reader, StepCalls& calls);

}  // namespace twin::run
