// The boundary that recorded runs on one kind of machine show.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/cost/boundary_config.h"
#include "sim/devices/step_profile.h"

namespace twin::sim {

// Delays of a serving process in front of an engine: connection, request parsing, tokenizer,
// detokenizer, stream and client. Each is the sum of the ways to the engine and back, which is what
// latencies show. More ranks are further processes that pass a request on.
struct BoundaryProfile {
  std::optional<StepTerm> one_rank_s;
  std::optional<StepTerm> more_ranks_s;

  bool operator==(const BoundaryProfile&) const = default;
};

// A boundary of `delay` seconds in both directions. Two thirds are taken to lie before the engine,
// a third after it. Delays vary from request to request by kBoundaryVariation. A client in a
// closed loop reacts after 1 to 5 ms.
BoundaryConfig BoundaryOf(double delay);

// The boundary of a server with an engine on `ranks` devices; none where nothing was measured.
std::optional<BoundaryConfig> BoundaryOf(const BoundaryProfile& profile, std::int32_t ranks);

// Standard deviation of the logarithm of its delay; 0 where nothing was measured.
double BoundaryLogSd(const BoundaryProfile& profile, std::int32_t ranks);

// The coefficient of variation of single delays, and the standard deviation of its logarithm from
// one run to another. Of 0, 0.15, 0.3 and 0.45, the shapes of TTFT in the seven runs that
// boundaries were fitted to (checks/fidelity) choose 0, 0, 0.15, 0.3, 0.3, 0.3 and 0.45.
inline constexpr double kBoundaryVariation = 0.2;
inline constexpr double kBoundaryVariationLogSd = 0.7;

// One draw of a boundary whose delay is known to log_sd: a factor on the delays of requests and
// responses, and one on their variation. draw_seed 0, or log_sd 0: the boundary as it is.
BoundaryConfig DrawnBoundary(BoundaryConfig boundary, double log_sd, std::uint64_t draw_seed);

}  // namespace twin::sim
