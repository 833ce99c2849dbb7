// Where the time of one step goes: what executors measure and cost models predict.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/time.h"

namespace twin {

enum class StepPart : std::uint8_t {
  kSchedule,       // from the instant that the engine was told until the device had the plan
  kBuild,          // block operations, and the step's inputs put together
  kGemm,           // matrix products, the LM head's too
  kAttention,      // attention over the KV cache
  kCommunication,  // collectives and sends between ranks
  kOther,          // norms, rotary embedding, cache writes, activations, whatever is left
  kSampling,       // tokens from logits
  kDelivery,       // from the end of the step until the engine was told
};

constexpr std::size_t kStepPartCount = 8;

constexpr std::array<std::string_view, kStepPartCount> kStepPartNames = {
    "schedule", "build", "gemm", "attention", "communication", "other", "sampling", "delivery"};

// A duration for each part. Parts follow each other: their sum is the step's latency, but for time
// that it waited behind another step.
struct StepParts {
  std::array<Duration, kStepPartCount> times{};

  [[nodiscard]] Duration& operator[](StepPart part) {
    return times[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] Duration operator[](StepPart part) const {
    return times[static_cast<std::size_t>(part)];
  }
  // Of the parts between the device's begin and end of the step: all but schedule and delivery.
  [[nodiscard]] Duration device() const {
    Duration sum{0};
    for (const Duration time : times) sum += time;
    return sum - (*this)[StepPart::kSchedule] - (*this)[StepPart::kDelivery];
  }
  bool operator==(const StepParts&) const = default;
};

}  // namespace twin
