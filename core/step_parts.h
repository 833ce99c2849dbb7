// The times of a step, and the parts into which they are divided: executors measure them, and cost
// models predict them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/time.h"

namespace twin {

enum class StepPart : std::uint8_t {
  kSchedule,       // from planning, or from the end of the previous step if later, to the begin
  kBuild,          // block operations, and assembly of the step's inputs
  kGemm,           // matrix products, including the LM head
  kAttention,      // attention over the KV cache
  kCommunication,  // collectives and sends between ranks
  kOther,          // norms, rotary embedding, cache writes, activations, and the remaining time
  kSampling,       // choice of tokens from logits
  kDelivery,       // from the end of the step to the instant that tells the engine its results
  kClocks,  // lower clocks of a warm device; predicted only: the other parts assume a rested one
};

constexpr std::size_t kStepPartCount = 9;
// The parts that executors measure: all but the last.
constexpr std::size_t kMeasuredPartCount = 8;

constexpr std::array<std::string_view, kStepPartCount> kStepPartNames = {
    "schedule", "build",    "gemm",     "attention", "communication",
    "other",    "sampling", "delivery", "clocks"};

// A duration for each part. The parts do not overlap: their sum is the step's latency, without the
// time that it waited for the previous step.
struct StepParts {
  std::array<Duration, kStepPartCount> times{};

  [[nodiscard]] Duration& operator[](StepPart part) {
    return times[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] Duration operator[](StepPart part) const {
    return times[static_cast<std::size_t>(part)];
  }
  // The sum of the parts that the step spends on the device: all but schedule and delivery.
  [[nodiscard]] Duration device() const {
    Duration sum{0};
    for (const Duration time : times) sum += time;
    return sum - (*this)[StepPart::kSchedule] - (*this)[StepPart::kDelivery];
  }
  bool operator==(const StepParts&) const = default;
};

// The times at which a step was planned, ran, and was reported, with its parts.
//
// Invariants: planned <= started <= finished <= told. The device parts sum to finished - started.
// Delivery is told - finished. Schedule is started - max(planned, end of the previous step on the
// device).
struct StepTimes {
  TimePoint planned;   // the instant at which the engine planned it
  TimePoint started;   // the device began
  TimePoint finished;  // the device ended
  TimePoint told;      // the instant that delivered its StepFinished to the engine
  StepParts parts = {};

  bool operator==(const StepTimes&) const = default;
};

}  // namespace twin
