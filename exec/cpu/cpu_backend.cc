#include "exec/cpu/cpu_backend.h"

namespace twin::exec {

ComputedStep CpuBackend::Collect() {
  const std::span<const SampledToken> sampled = executor_.Execute(*launched_.PopFront());
  const LapTimer& laps = executor_.laps();
  return {sampled, laps.begin(), laps.end(), laps.parts(), executor_.logits()};
}

}  // namespace twin::exec
