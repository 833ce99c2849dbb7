#include "sim/cost/operations/collective_model.h"

namespace twin::sim {

CollectiveModel::CollectiveModel(const HardwareSpec& hardware) : hardware_(hardware) {}

// A ring: ranks - 1 messages for each of its passes, of which an all-reduce needs two.
Estimate CollectiveModel::operator()(Collective kind, std::int32_t ranks, double bytes) const {
  const double passes = kind == Collective::kAllReduce ? 2 : 1;
  const double hops = kind == Collective::kSend ? 1 : ranks - 1;
  const double share = kind == Collective::kSend ? 1 : hops / ranks;
  const double rate = hardware_.link_bandwidth_bytes_per_s * hardware_.link_bandwidth_fraction;
  return {passes * (hops * hardware_.link_latency_s + share * bytes / rate), 0.4};
}

}  // namespace twin::sim
