// The times of messages between the devices of a dataflow machine.
//
//   n   devices of a stage        v   bytes of the message, on each device
//   H   latency of a link         B   bytes per second of one link
//
//   topology     holds                       all-reduce
//   ring         any n                       2 (n - 1) H + 2 (n - 1) / n v / B
//   clique       devices of a node           the shorter of H + v / B and 2 H + 2 v / n / B
//   clique grid  k x k, k devices of a node  the shorter of 2 (H + v / B) and
//                                            4 H + 2 (v / k + v / k^2) / B
//   dragonfly    nodes with a link between   3 H + 3 v / B / devices of a node; in one node as a
//                each two                    clique
//
// In cliques and grids every device sends to all others at once, either all of v, or its parts to
// be added and then the sums. The nodes of a dragonfly add up parts, exchange them, and spread the
// sums: as in D. Abts et al., "A software-defined tensor streaming multiprocessor for large-scale
// machine learning", ISCA 2022. Where the data sheet has a table of latencies by reach, H is that
// of all devices that the message connects.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "core/parallelism.h"

namespace twin::sim {

// Throws InputError (usage) naming topology, devices and what is allowed.
void RequireTopology(const HardwareSpec& hardware, LinkTopology topology, std::int32_t devices);

// Seconds = latency_s + bytes x s_per_byte, of each of two ways, of which the shorter is taken.
struct AllReduceTime {
  double direct_latency_s = 0;
  double direct_s_per_byte = 0;
  double parts_latency_s = 0;
  double parts_s_per_byte = 0;

  [[nodiscard]] double Seconds(double bytes) const {
    const double direct = direct_latency_s + bytes * direct_s_per_byte;
    const double parts = parts_latency_s + bytes * parts_s_per_byte;
    return direct < parts ? direct : parts;
  }
};

// REQUIRES: RequireTopology() accepts the arguments; hardware.dataflow. One device takes no time.
AllReduceTime AllReduceOf(const HardwareSpec& hardware, LinkTopology topology,
                          std::int32_t devices);

// Latency of a link between devices that are `devices` together.
double LinkLatency(const HardwareSpec& hardware, std::int32_t devices);

// Bytes per second of one link of a device, in a node or between nodes.
double LinkBandwidth(const HardwareSpec& hardware, bool between_nodes);

}  // namespace twin::sim
