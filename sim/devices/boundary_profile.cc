#include "sim/devices/boundary_profile.h"

#include <cmath>

#include "core/time.h"
#include "sim/devices/drawn_errors.h"

namespace twin::sim {
namespace {

constexpr double kRequestShare = 2.0 / 3.0;
constexpr double kReactionSeconds = 3e-3;
constexpr double kReactionVariation = 0.4;  // 1 to 5 ms between the 5th and the 95th percentile

DurationDistribution Varying(double mean, double variation) {
  return {.kind = DurationDistribution::Kind::kLogNormal,
          .mean = DurationFromSeconds(mean),
          .cv = variation};
}

const std::optional<StepTerm>& TermOf(const BoundaryProfile& profile, std::int32_t ranks) {
  return ranks == 1 ? profile.one_rank_s : profile.more_ranks_s;
}

}  // namespace

BoundaryConfig BoundaryOf(double delay) {
  return {.request = Varying(delay * kRequestShare, kBoundaryVariation),
          .response = Varying(delay * (1 - kRequestShare), kBoundaryVariation),
          .client_reaction = Varying(kReactionSeconds, kReactionVariation)};
}

std::optional<BoundaryConfig> BoundaryOf(const BoundaryProfile& profile, std::int32_t ranks) {
  const std::optional<StepTerm>& term = TermOf(profile, ranks);
  if (!term) return std::nullopt;
  return BoundaryOf(term->value);
}

double BoundaryLogSd(const BoundaryProfile& profile, std::int32_t ranks) {
  const std::optional<StepTerm>& term = TermOf(profile, ranks);
  return term ? term->log_sd : 0;
}

BoundaryConfig DrawnBoundary(BoundaryConfig boundary, double log_sd, std::uint64_t draw_seed) {
  if (log_sd == 0 || draw_seed == 0) return boundary;
  const DrawnErrors errors = DrawErrors(draw_seed);
  const double delay = std::exp(log_sd * errors.boundary);
  const double variation = std::exp(kBoundaryVariationLogSd * errors.boundary_variation);
  for (DurationDistribution* const way : {&boundary.request, &boundary.response}) {
    way->mean = DurationFromSeconds(Seconds(way->mean) * delay);
    way->cv *= variation;
  }
  return boundary;
}

}  // namespace twin::sim
