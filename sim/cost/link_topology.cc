#include "sim/cost/link_topology.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

[[noreturn]] void Refuse(const HardwareSpec& hardware, const char* topology, std::int32_t devices,
                         const std::string& allowed) {
  throw InputError(InputError::Kind::kUsage, "system.link_topology",
                   fmt::format("{} does not hold the {} devices of a stage of {}; allowed: {}",
                               topology, devices, hardware.name, allowed));
}

std::int32_t GridSide(std::int32_t devices) {
  return static_cast<std::int32_t>(std::lround(std::sqrt(devices)));
}

std::int32_t DragonflyDevices(const HardwareSpec& hardware) {
  const std::int32_t node = hardware.devices_per_node;
  return node * (node * hardware.dataflow->global_links + 1);
}

}  // namespace

void RequireTopology(const HardwareSpec& hardware, LinkTopology topology, std::int32_t devices) {
  const std::int32_t node = hardware.devices_per_node;
  switch (topology) {
    case LinkTopology::kRing:
      return;
    case LinkTopology::kClique:
      if (devices <= node) return;
      Refuse(hardware, "CLIQUE", devices, fmt::format("at most {}, the devices of a node", node));
    case LinkTopology::kCliqueGrid: {
      const std::int32_t side = GridSide(devices);
      if (side * side == devices && side >= 2 && side <= node) return;
      Refuse(hardware, "CLIQUE_GRID", devices,
             fmt::format("a square number of 4 to {}, such as 16", node * node));
    }
    case LinkTopology::kDragonfly: {
      const std::int32_t most = DragonflyDevices(hardware);
      if (devices <= most) return;
      Refuse(hardware, "DRAGONFLY", devices, fmt::format("at most {}", most));
    }
  }
}

double LinkLatency(const HardwareSpec& hardware, std::int32_t devices) {
  CHECK(hardware.dataflow.has_value());
  const std::vector<ReachLatency>& reach = hardware.dataflow->reach;
  if (reach.empty()) return hardware.link_latency_s;
  const double bytes = static_cast<double>(devices) * static_cast<double>(hardware.memory_bytes);
  for (const ReachLatency& row : reach) {
    if (bytes <= row.bytes) return row.latency_s;
  }
  return reach.back().latency_s;
}

double LinkBandwidth(const HardwareSpec& hardware, bool between_nodes) {
  return hardware.link_bandwidth_fraction * (between_nodes
                                                 ? hardware.inter_node_bandwidth_bytes_per_s
                                                 : hardware.link_bandwidth_bytes_per_s);
}

AllReduceTime AllReduceOf(const HardwareSpec& hardware, LinkTopology topology,
                          std::int32_t devices) {
  if (devices == 1) return {};
  if (topology == LinkTopology::kDragonfly && devices <= hardware.devices_per_node) {
    topology = LinkTopology::kClique;  // of one node
  }
  const double n = devices;
  const double hop = LinkLatency(hardware, devices);
  const double local = 1 / LinkBandwidth(hardware, false);
  const double global = 1 / LinkBandwidth(hardware, true);
  switch (topology) {
    case LinkTopology::kRing: {
      const double latency = 2 * (n - 1) * hop;
      const double byte = 2 * (n - 1) / n * (devices > hardware.devices_per_node ? global : local);
      return {latency, byte, latency, byte};
    }
    case LinkTopology::kClique:
      return {hop, local, 2 * hop, 2 / n * local};
    case LinkTopology::kCliqueGrid: {
      const double side = GridSide(devices);
      const double row = LinkLatency(hardware, GridSide(devices));
      return {row + hop, local + global, 2 * (row + hop),
              2 / side * local + 2 / (side * side) * global};
    }
    case LinkTopology::kDragonfly: {
      const double latency = 3 * hop;
      const double node = hardware.devices_per_node;
      const double byte = (2 * local + global) / node;
      return {latency, byte, latency, byte};
    }
  }
  CHECK(false);
  return {};
}

}  // namespace twin::sim
