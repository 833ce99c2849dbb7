// A device with round numbers, so that expected times can be worked out by hand.
#pragma once

#include "core/hardware_spec.h"

namespace twin::sim {

// Everything is achieved to 100 % and without latency: 1 PFLOP/s, 1 TB/s, 100 GB/s links.
inline HardwareSpec IdealHardware() {
  return {.name = "ideal",
          .memory_bytes = 85'899'345'920,
          .memory_bandwidth_bytes_per_s = 1e12,
          .sm_count = 100,
          .peak_fp32_flops = 1e14,
          .peak_bf16_flops = 1e15,
          .link_bandwidth_bytes_per_s = 1e11,
          .devices_per_node = 8,
          .inter_node_bandwidth_bytes_per_s = 1e10,
          .pcie_bandwidth_bytes_per_s = 2e10,
          .gemm_flops_fraction = 1,
          .gemm_bandwidth_fraction = 1,
          .attention_flops_fraction = 1,
          .attention_bandwidth_fraction = 1,
          .elementwise_bandwidth_fraction = 1,
          .link_bandwidth_fraction = 1,
          .pcie_bandwidth_fraction = 1,
          .gemm_latency_s = 0,
          .attention_latency_s = 0,
          .attention_per_request_s = 0,
          .elementwise_latency_s = 0};
}

}  // namespace twin::sim
