// Which drafts a simulated model accepts (speculative decoding).
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin::sim {

struct AcceptanceConfig {
  // By position among the drafts of a step: the probability that a draft is accepted if all before
  // it are. The last one also holds for all later positions. Not empty.
  std::vector<double> rates = {0.7};
  // Probability that something is drafted for a request after a step, as n-grams may find nothing.
  double proposal_rate = 1.0;

  bool operator==(const AcceptanceConfig&) const = default;
};

// With one rate a and k drafts, a step yields (1 - a^(k+1)) / (1 - a) tokens of a request on
// average (Leviathan, Kalman, Matias, 2023, arXiv:2211.17192, eq. 1).
//
// Whether a draft is accepted depends on the seed, the request and the draft's place in the output,
// and on nothing else: policies that schedule a request differently meet the same luck.
class Acceptance {
 public:
  // Borrows the config. `drafts_max`: drafts after a step.
  Acceptance(const AcceptanceConfig& config, std::int32_t drafts_max, std::uint64_t seed)
      : config_(config), drafts_max_(drafts_max), seed_(seed) {}

  // How many of `drafts` drafts for the output tokens from number `place` on are accepted.
  [[nodiscard]] std::int32_t Accepted(RequestId id, std::int32_t place, std::int32_t drafts) const;
  // How many drafts are made for the output tokens from number `place` on.
  [[nodiscard]] std::int32_t Proposed(RequestId id, std::int32_t place) const;

 private:
  // Uniform in [0, 1).
  [[nodiscard]] double Uniform(RequestId id, std::int32_t place, std::uint64_t stream) const;

  const AcceptanceConfig& config_;
  std::int32_t drafts_max_;
  std::uint64_t seed_;
};

}  // namespace twin::sim
