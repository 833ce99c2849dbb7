// The settings of the roofline cost model; the rest follows from model and hardware.
#pragma once

#include <cstdint>

#include "sim/cost/cost_traits.h"

namespace twin::sim {

struct RooflineCostConfig {
  static constexpr CostTraits kCostTraits = {.name = "roofline",
                                             .prices_drafts = true,
                                             .has_proven_bounds = true,
                                             .reads_data_sheet = true};

  // GEMM rows are charged in multiples of this many tokens (128 is a common tile); 1 = no tiles.
  std::int32_t gemm_tile_tokens = 1;
  // Prefill and decode attention of a mixed step run at the same time; if false, one after the
  // other on one stream.
  bool overlaps_attention = false;
  // Host time before the first stage starts = host_s + host_per_item_s x requests in the step
  // + host_per_token_s x tokens.
  double host_s = 0;
  double host_per_item_s = 0;
  double host_per_token_s = 0;

  bool operator==(const RooflineCostConfig&) const = default;
};

}  // namespace twin::sim
