// The calls with which a policy built a step, so that another StepBuilder can repeat them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// A call of StepBuilder that changed something. The comments say what `a` and `b` are.
struct StepCall {
  enum class Kind : std::uint8_t {
    kAdmit,
    kGrow,             // tokens
    kReserve,          // blocks
    kSchedule,         // tokens, padded tokens
    kScheduleDecodes,  // how many of StepCalls::decodes; DecodeLimits::computed_max
    kUnschedule,
    kPreempt,
    kSwapOut,
    kSwapIn,
    kReject,         // RejectReason
    kAttachPrefix,   // blocks
    kPublishPrefix,  // tokens
  };
  Kind kind{};
  RequestId request{};  // of kScheduleDecodes: none
  std::int32_t a = 0;
  std::int32_t b = 0;
  std::int32_t c = 0;  // of kScheduleDecodes: DecodeLimits::free_blocks_min

  bool operator==(const StepCall&) const = default;
};

struct StepCalls {
  std::vector<StepCall> calls;     // in order
  std::vector<RequestId> decodes;  // of all kScheduleDecodes, one after the other

  void Clear() {
    calls.clear();
    decodes.clear();
  }
};

}  // namespace twin
