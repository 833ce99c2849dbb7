// Every cost model that can be named in a configuration. A line here adds a cost model.
//
// Its config is an aggregate of settings with
//   kCostTraits                 its name and traits (cost_traits.h)
//   Resolve(context)            optional: sets what is left to the policy and the device
//   draw_seed                   optional: the number of a draw of its errors
//   boundary()                  optional: the delays that its profile holds
//   EstimatedPartsWarning()     optional
#pragma once

#include "sim/cost/constant_cost.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/dataflow_config.h"
#include "sim/cost/fitted_config.h"
#include "sim/cost/linear_cost.h"
#include "sim/cost/roofline_config.h"
#include "sim/devices/profile_config.h"

namespace twin::sim {

template <class... Configs>
struct CostRegistry {};

using Costs = CostRegistry<ConstantCostConfig, LinearCostConfig, RooflineCostConfig,
                           FittedCostConfig, ProfileCostConfig, DataflowCostConfig>;

// Calls visit(Config{}) for the settings of each cost model, in the order of the registry.
template <class... Configs, class Visit>
void ForEachCost(CostRegistry<Configs...> /*registry*/, Visit&& visit) {
  (visit(Configs{}), ...);
}
template <class Visit>
void ForEachCost(Visit&& visit) {
  ForEachCost(Costs{}, visit);
}

}  // namespace twin::sim
