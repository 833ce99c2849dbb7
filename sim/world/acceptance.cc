#include "sim/world/acceptance.h"

#include <algorithm>
#include <cstddef>

#include "core/hash.h"
#include "core/random.h"

namespace twin::sim {
namespace {

constexpr std::uint64_t kAcceptStream = 1;
constexpr std::uint64_t kProposeStream = 2;

}  // namespace

double Acceptance::Uniform(RequestId id, std::int32_t place, std::uint64_t stream) const {
  const std::uint64_t request = MixWords(MixWords(seed_, stream), Index(id));
  // One multiplication alone leaves the numbers of neighbouring places at a constant distance.
  std::uint64_t state = MixWords(request, static_cast<std::uint64_t>(place));
  const std::uint64_t word = NextSplitMix64(state);
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

std::int32_t Acceptance::Accepted(RequestId id, std::int32_t place, std::int32_t drafts) const {
  const std::vector<double>& rates = config_.rates;
  std::int32_t accepted = 0;
  for (; accepted < drafts; ++accepted) {
    const std::size_t position = std::min(static_cast<std::size_t>(accepted), rates.size() - 1);
    if (Uniform(id, place + accepted, kAcceptStream) >= rates[position]) break;
  }
  return accepted;
}

std::int32_t Acceptance::Proposed(RequestId id, std::int32_t place) const {
  if (config_.proposal_rate < 1 && Uniform(id, place, kProposeStream) >= config_.proposal_rate) {
    return 0;
  }
  return drafts_max_;
}

}  // namespace twin::sim
