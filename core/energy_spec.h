// The power that a device takes and the price of its time.
#pragma once

#include <string>

namespace twin {

// Power of a device while a step of t seconds runs, in watts:
//
//   min(limit, base + (joules_per_byte x bytes + joules_per_flop x flops
//                      + joules_per_activation_byte x activation bytes
//                      + joules_per_routed_byte x routed bytes
//                      + joules_per_link_byte x link bytes) / t)
//
// `bytes` are weights and cache entries that are read or written; `flops` are at the rate of 16
// bits: products that the device computes k times as fast count 1 / k. Activation bytes are the
// inputs and outputs of layers without experts, routed bytes those of layers with experts, whose
// small products waste more. Between steps it takes `idle` watts. The chip alone: host, fans and
// network are not in it.
struct EnergySpec {
  double idle_watts = 0;   // with weights in memory and no step in flight; 0 = unknown
  double base_watts = 0;   // > 0
  double limit_watts = 0;  // > 0; of the data sheet
  double joules_per_byte = 0;
  double joules_per_flop = 0;
  double joules_per_activation_byte = 0;
  double joules_per_routed_byte = 0;
  double joules_per_link_byte = 0;  // sent to other devices
  std::string source;               // who measured, or on which runs these numbers were fitted

  bool operator==(const EnergySpec&) const = default;
};

struct PriceSpec {
  double usd_per_hour = 0;  // of one device, > 0
  std::string date;         // of the price, as 2026-03-17
  std::string source;

  bool operator==(const PriceSpec&) const = default;
};

}  // namespace twin
