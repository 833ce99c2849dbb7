#include "sim/boundary_profile.h"

#include <cmath>

#include "core/random.h"
#include "core/time.h"

namespace twin::sim {
namespace {

constexpr double kRequestShare = 2.0 / 3.0;
constexpr double kReactionSeconds = 3e-3;
constexpr double kReactionVariation = 0.4;  // 1 to 5 ms between the 5th and the 95th percentile

}  // namespace

BoundaryConfig BoundaryOf(double delay) {
  BoundaryConfig boundary;
  boundary.request.mean = DurationFromSeconds(delay * kRequestShare);
  boundary.response.mean = DurationFromSeconds(delay * (1 - kRequestShare));
  boundary.client_reaction = {.kind = DurationDistribution::Kind::kLogNormal,
                              .mean = DurationFromSeconds(kReactionSeconds),
                              .cv = kReactionVariation};
  return boundary;
}

std::optional<BoundaryConfig> BoundaryOf(const BoundaryProfile& profile, std::int32_t ranks,
                                         std::uint64_t draw_seed) {
  const std::optional<StepTerm>& term = ranks == 1 ? profile.one_rank_s : profile.more_ranks_s;
  if (!term) return std::nullopt;
  double delay = term->value;
  if (draw_seed != 0) {
    delay *= std::exp(term->log_sd * Random(draw_seed, "boundary terms").Normal());
  }
  return BoundaryOf(delay);
}

}  // namespace twin::sim
