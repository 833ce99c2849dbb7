// A deterministic dataflow machine, such as a Groq LPU: a compiler places all work, and weights
// move from on-chip memory into matrix units before tokens are multiplied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace twin {

// Time of a message between the memories of devices that together hold up to `bytes`.
struct ReachLatency {
  double bytes = 0;
  double latency_s = 0;

  bool operator==(const ReachLatency&) const = default;
};

// Equations: sim/cost/dataflow_cost.h.
struct DataflowSpec {
  // Rate at which a device moves weights, keys and values into its matrix units.
  double install_bytes_per_s = 0;
  // Format that weights are moved and multiplied in, whatever they are stored in; one of 8 or 16
  // bits.
  DType compute_dtype = DType::kFp16;
  double layer_overhead_s = 0;  // of each layer
  double dispatch_s = 0;        // more, of each layer with experts
  // Links of a device to devices of other nodes, for dragonflies.
  std::int32_t global_links = 0;
  std::int64_t reserve_bytes = 0;  // of a device's memory, for programs and buffers
  // Ascending; a stage of more bytes has the last latency. Empty = a message between linked devices
  // takes HardwareSpec::link_latency_s.
  std::vector<ReachLatency> reach;
  std::string source;

  bool operator==(const DataflowSpec&) const = default;
};

}  // namespace twin
