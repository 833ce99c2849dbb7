// The traits of a cost model.
#pragma once

#include <string_view>

namespace twin::sim {

// Everything that code outside sim/ may ask about a cost model.
struct CostTraits {
  std::string_view name;           // in configurations
  bool prices_drafts = false;      // predicts the steps of any model shape, a draft model's too
  bool has_proven_bounds = false;  // apps/bounds
  bool reads_data_sheet = false;   // its times follow from model shape and data sheet alone
  bool takes_any_split = false;    // of stages, links and keys over devices (Parallelism)
  bool is_measured = false;        // predicts from measurements of the device, with drawn errors
};

}  // namespace twin::sim
