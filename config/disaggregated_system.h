// Disaggregation of prefill and decode, as an experiment configures it.
#pragma once

#include "sched/disaggregation_config.h"
#include "sim/world/kv_links.h"

namespace twin {

// Replicas that prefill and replicas that decode, and the network between them.
struct DisaggregatedSystem {
  DisaggregationConfig pools;
  sim::LinkConfig link;

  bool operator==(const DisaggregatedSystem&) const = default;
};

}  // namespace twin
