// Divides the device time of a step into parts, with events between the operations.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step_parts.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Events in stream order. The time between two consecutive events counts for the part named with
// the second.
class LapEvents {
 public:
  enum class Kind : std::uint8_t {
    kNone,  // records nothing
    kInStream,
    kInGraph,  // recorded during graph capture, and again by each replay
  };
  explicit LapEvents(Kind kind) : kind_(kind) {}

  void Start(StreamView stream) {
    Clear();
    Lap(stream, StepPart::kOther);
  }
  // Assigns the time since the last lap to `part`: a StepPart or a label chosen by the caller.
  template <class Part>
  void Lap(StreamView stream, Part part) {
    if (kind_ != Kind::kNone) Record(stream, static_cast<std::uint8_t>(part));
  }
  void Clear() { count_ = 0; }

  // Time per part since Start(). REQUIRES: the last event has passed.
  [[nodiscard]] StepParts Parts() const;
  template <class Label>
  [[nodiscard]] double SecondsOf(Label label) const {
    return static_cast<double>(Sum(static_cast<std::uint8_t>(label))) * 1e-9;
  }

 private:
  void Record(StreamView stream, std::uint8_t part);
  [[nodiscard]] std::int64_t Sum(std::uint8_t part) const;

  Kind kind_;
  std::vector<Event> events_;  // reused from step to step
  std::vector<std::uint8_t> parts_;
  std::size_t count_ = 0;
};

// Says which steps of a kind are timed operation by operation: the first, and then one in
// `interval`.
class DetailTurns {
 public:
  explicit DetailTurns(std::int32_t interval) : interval_(interval) {}

  // Counts a step. True if it is to be timed; while this is not `possible`, the turn is put off.
  bool Next(bool possible);

 private:
  std::int32_t interval_;
  std::int32_t others_left_ = 0;  // before the next timed step
};

// Divides `total` in the proportions of `shares`. The parts add up to `total` exactly: the largest
// part gets the rounding error. If all shares are zero, `total` counts as kOther.
StepParts DivideBy(const StepParts& shares, Duration total);

}  // namespace twin::exec::cuda
