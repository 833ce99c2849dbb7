#include "exec/cpu/sequence_states.h"

#include <algorithm>

#include "core/check.h"

namespace twin::exec {

float* SequenceStates::Advance(RequestId id, std::int32_t start, std::int32_t tokens) {
  Place* place = places_.Find(id);
  if (place == nullptr) {
    place = &places_.OpenInAnyOrder(id);
    place->computed = 0;
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back(floats_);
    }
    place->slot = free_.back();
    free_.pop_back();
  }
  std::vector<float>& slot = slots_[place->slot];
  if (start == 0) {
    std::ranges::fill(slot, 0.0F);
    place->computed = 0;
  }
  CHECK(place->computed == start);
  place->computed += tokens;
  return slot.data();
}

void SequenceStates::Release(RequestId id) {
  const Place* const place = places_.Find(id);
  if (place == nullptr) return;
  free_.push_back(place->slot);
  places_.Close(id);
}

}  // namespace twin::exec
