// The calls of a policy in another process, repeated on the judge's engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "sched/sequence.h"
#include "sched/step_builder.h"
#include "sched/step_calls.h"

namespace twin::run {

// A call that no policy of an equal engine can have made.
class ImpossibleCall : public std::runtime_error {
 public:
  ImpossibleCall()
      : std::runtime_error(
            "the policy's process and the judge no longer agree on the state of the "
            "KV cache") {}
};

// Repeats calls of which nothing is known: whatever they hold, the engine either makes them, or
// throws InvariantViolation, or is not asked.
class RepeatedCalls {
 public:
  // `id_shift` was added to the ids that the policy sees.
  explicit RepeatedCalls(std::uint32_t id_shift) : id_shift_(id_shift) {}

  // The policy hears of the request, and of its end.
  void Enqueue(RequestId id) { live_.insert(Index(id)); }
  void Remove(RequestId id) { live_.erase(Index(id)); }

  // Throws ImpossibleCall, InvariantViolation. The calls before then were made.
  void Repeat(const StepCalls& calls, StepBuilder& step);

 private:
  void Repeat(const StepCall& call, StepBuilder& step);
  void RepeatCache(const StepCall& call, const Sequence& s, StepBuilder& step);
  void RepeatReject(const StepCall& call, const Sequence& s, StepBuilder& step);
  void RepeatDecodes(const StepCall& call, const std::vector<RequestId>& decodes,
                     StepBuilder& step);
  [[nodiscard]] RequestId Known(RequestId shown) const;

  std::uint32_t id_shift_;
  std::unordered_set<std::uint32_t> live_;  // as Index() of ids
  std::size_t decodes_ = 0;                 // taken of the present step's
  std::vector<RequestId> ids_;
};

}  // namespace twin::run
