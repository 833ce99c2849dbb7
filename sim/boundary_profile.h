// The boundary that recorded runs on one kind of machine show.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/boundary_config.h"
#include "sim/cost/step_profile.h"

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
// a third behind it. A client in a closed loop reacts after 1 to 5 ms.
BoundaryConfig BoundaryOf(double delay);

// The boundary of a server with an engine on `ranks` devices; none where nothing was measured.
// draw_seed draws the delay from its fitted distribution; 0: the fitted value.
std::optional<BoundaryConfig> BoundaryOf(const BoundaryProfile& profile, std::int32_t ranks,
                                         std::uint64_t draw_seed);

}  // namespace twin::sim
