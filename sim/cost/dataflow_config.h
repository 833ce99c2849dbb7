// The cost model of dataflow machines has no settings: all follows from model, data sheet and
// split.
#pragma once

#include "sim/cost/cost_traits.h"

namespace twin::sim {

struct DataflowCostConfig {
  static constexpr CostTraits kCostTraits = {.name = "dataflow", .takes_any_split = true};

  bool operator==(const DataflowCostConfig&) const = default;
};

}  // namespace twin::sim
