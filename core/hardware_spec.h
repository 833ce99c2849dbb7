// A kind of accelerator and its links: the peaks on its data sheet, and the fractions of them that
// kernels achieve.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dataflow_spec.h"
#include "core/energy_spec.h"

namespace twin {

// Units are decimal (1e9 bytes = 1 GB) except where a field counts bytes exactly. Memory size,
// bandwidths and the fp32 peak must be given; `Validate` names all that are missing.
struct HardwareSpec {
  std::string name;

  // Capacity that the driver reports: nvidia-smi's total, or less. A comment in each shipped sheet
  // says who measured it.
  std::int64_t memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  // Streaming multiprocessors, cores of a CPU; 0 = unknown.
  std::int32_t sm_count = 0;
  std::int64_t l2_bytes = 0;  // last cache before the memory; 0 = unknown

  // Dense peaks, without sparsity. 0 = the device has no unit for the format: fp8 and int8 weights
  // are then widened and computed at the bf16 peak, tf32 is not used, and bf16 is computed at the
  // fp32 peak.
  double peak_fp32_flops = 0;
  double peak_tf32_flops = 0;
  double peak_bf16_flops = 0;  // also fp16
  double peak_fp8_flops = 0;
  double peak_fp4_flops = 0;  // of nvfp4 and mxfp4; 0 = such weights are widened to 16 bits
  double peak_int8_flops = 0;

  // Links between the devices of one node (NVLink, else PCIe), per direction.
  double link_bandwidth_bytes_per_s = 0;
  double link_latency_s = 0;  // one message, start to arrival
  std::int32_t devices_per_node = 1;
  // Links between nodes, per device and direction.
  double inter_node_bandwidth_bytes_per_s = 0;
  double inter_node_latency_s = 0;

  // The link to the host, per direction; swaps use it.
  double pcie_bandwidth_bytes_per_s = 0;
  double pcie_latency_s = 0;  // one batch of copies
  std::int64_t host_memory_bytes = 0;

  // Fractions of the peaks above that large, well-shaped operations achieve, within (0, 1]. No
  // vendor states them; the defaults are rounded from the sheets of H100, L40S and A40
  // (sim/devices/hardware).
  double gemm_flops_fraction = 0.8;
  double gemm_bandwidth_fraction = 0.78;
  double attention_flops_fraction = 0.47;  // prefill attention, causal pairs counted once
  double attention_bandwidth_fraction = 0.89;
  double elementwise_bandwidth_fraction = 0.75;
  double link_bandwidth_fraction = 0.65;
  double pcie_bandwidth_fraction = 0.8;

  // Minimum time of an operation of any size: launch, ramp and drain.
  double gemm_latency_s = 3e-6;
  double attention_latency_s = 10e-6;
  double attention_per_request_s = 0.05e-6;  // decode attention: further time per request
  double elementwise_latency_s = 3e-6;

  // Absent = unknown: nothing is then said of energy or cost.
  std::optional<EnergySpec> energy = std::nullopt;
  std::optional<PriceSpec> price = std::nullopt;
  // Absent = a processor that fetches weights and caches as it computes, such as a GPU.
  std::optional<DataflowSpec> dataflow = std::nullopt;

  bool operator==(const HardwareSpec&) const = default;
};

// Throws InputError (usage) naming the device and all wrong fields if a capacity, bandwidth, or the
// fp32 peak (of GPUs) is not positive, a fraction is outside (0, 1], or another number is negative.
// Energy, price and dataflow need a source, and their positive numbers.
void Validate(const HardwareSpec& hardware);

}  // namespace twin
