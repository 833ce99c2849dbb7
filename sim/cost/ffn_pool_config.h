// The settings of a pool of devices that computes the feed-forward networks (FFN) of a replica.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/ffn_pool_pipeline.h"

namespace twin::sim {

// Between attention and FFN devices. Absent: as the data sheets of both sides say of the network
// between nodes.
struct FfnPoolLinkConfig {
  std::optional<double> bandwidth_gbps;  // of a device, each way
  std::optional<double> latency_us;      // each way

  bool operator==(const FfnPoolLinkConfig&) const = default;
};

// The replica's own devices keep attention, its cache, embedding and head.
struct FfnPoolConfig {
  std::string hardware;  // preset, or path of the data sheet; empty: that of the replica
  HardwareSpec hardware_spec;
  std::int32_t devices = 1;
  // Equal sets of the replica's devices, each with all of attention's weights, over which its
  // requests are spread evenly.
  std::int32_t attention_groups = 1;
  std::int32_t micro_batches = 3;
  FfnPoolPlacement placement = FfnPoolPlacement::kPooled;
  FfnPoolLinkConfig link;
  // Each FFN device holds whole experts and, of all other FFNs, every weight; else a share of every
  // matrix. Absent: true for models with experts.
  std::optional<bool> expert_parallel;
  double utilization = 0.9;        // share of an FFN device's memory for weights
  std::optional<CostConfig> cost;  // absent: that of the replica

  bool operator==(const FfnPoolConfig&) const = default;
};

// The devices of a replica: attention's, and those of the pool.
inline std::int32_t DevicesOf(const Parallelism& parallelism, const FfnPoolConfig& ffn) {
  return parallelism.devices() * ffn.attention_groups + ffn.devices;
}

}  // namespace twin::sim
