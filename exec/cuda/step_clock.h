// Where a device spends the time of its steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step_parts.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// Moments in the order of a stream; what passed between two belongs to the part named with the
// second.
class LapEvents {
 public:
  enum class Kind : std::uint8_t {
    kNone,  // records nothing
    kInStream,
    kInGraph,  // recorded while a graph is captured, and passed anew at each replay
  };
  explicit LapEvents(Kind kind) : kind_(kind) {}

  void Start(StreamView stream) {
    Clear();
    Lap(stream, StepPart::kOther);
  }
  // What passed since the last lap was `part`: a StepPart, or a label of the caller's.
  template <class Part>
  void Lap(StreamView stream, Part part) {
    if (kind_ != Kind::kNone) Record(stream, static_cast<std::uint8_t>(part));
  }
  void Clear() { count_ = 0; }

  // Time by part since the start. REQUIRES: the last moment has passed.
  [[nodiscard]] StepParts Parts() const;
  template <class Label>
  [[nodiscard]] double SecondsOf(Label label) const {
    return static_cast<double>(Sum(static_cast<std::uint8_t>(label))) * 1e-9;
  }

 private:
  void Record(StreamView stream, std::uint8_t part);
  [[nodiscard]] std::int64_t Sum(std::uint8_t part) const;

  Kind kind_;
  std::vector<Event> events_;  // kept from step to step
  std::vector<std::uint8_t> parts_;
  std::size_t count_ = 0;
};

// `total` divided in the proportions of `shares`, exactly: what is lost in rounding is the largest
// part's. All of it is kOther where there are no shares.
StepParts DivideBy(const StepParts& shares, Duration total);

}  // namespace twin::exec::cuda
