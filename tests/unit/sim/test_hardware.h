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

// A Groq LPU v1, by D. Abts et al., ISCA 2020 and 2022: 220 MiB, 10,240 bytes installed and 204,800
// flops a cycle of 900 MHz, links of 12.5 GB/s with 320 of 328 bytes of payload, hops of 722 ns.
// Overheads of layers are left out.
inline HardwareSpec Lpu() {
  HardwareSpec lpu = IdealHardware();
  lpu.name = "lpu";
  lpu.memory_bytes = 230'686'720;
  lpu.memory_bandwidth_bytes_per_s = 50.688e12;
  lpu.peak_bf16_flops = 184.32e12;
  lpu.link_bandwidth_bytes_per_s = 12.5e9;
  lpu.link_latency_s = 0.722e-6;
  lpu.link_bandwidth_fraction = 320.0 / 328;
  lpu.inter_node_bandwidth_bytes_per_s = 12.5e9;
  lpu.inter_node_latency_s = 0.722e-6;
  lpu.dataflow = DataflowSpec{.install_bytes_per_s = 9.216e12,
                              .compute_dtype = DType::kFp16,
                              .global_links = 4,
                              .reach = {},
                              .source = "ISCA 2020"};
  return lpu;
}

}  // namespace twin::sim
