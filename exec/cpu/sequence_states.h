// The states of recurrent layers of running sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"

namespace twin::exec {

// One slot of fp32 numbers for each sequence that runs. A slot is taken with a sequence's first
// token and given back when the sequence ends or is preempted; it then begins again at its first
// token. As many slots exist as sequences ever ran at once.
class SequenceStates {
 public:
  // `floats`: of one sequence.
  explicit SequenceStates(std::int64_t floats) : floats_(static_cast<std::size_t>(floats)) {}

  // The numbers of a sequence of which positions `start` to `start` + `tokens` - 1 are computed
  // next, zero if start is 0; valid until Release(). REQUIRES: the positions before `start` were
  // computed since then.
  float* Advance(RequestId id, std::int32_t start, std::int32_t tokens);
  // Has no effect if the sequence has no slot.
  void Release(RequestId id);

  [[nodiscard]] std::size_t slots() const { return slots_.size(); }

 private:
  struct Place {
    std::size_t slot = 0;
    std::int32_t computed = 0;
  };

  std::size_t floats_;
  std::vector<std::vector<float>> slots_;
  std::vector<std::size_t> free_;
  IdMap<Place> places_;
};

}  // namespace twin::exec
