#include "core/hardware_spec.h"

#include <fmt/format.h>

#include <string>

#include "core/input_error.h"

namespace twin {
namespace {

struct Field {
  const char* name;
  double value;
};

void AddWrong(const Field& field, const char* allowed, std::string& wrong) {
  wrong += fmt::format("{}{} is {}, must be {}", wrong.empty() ? "" : "; ", field.name, field.value,
                       allowed);
}

void RequireSource(const char* name, const std::string& source, std::string& wrong) {
  if (!source.empty()) return;
  wrong += fmt::format("{}{} is missing", wrong.empty() ? "" : "; ", name);
}

void CheckEnergy(const EnergySpec& energy, std::string& wrong) {
  for (const Field& field : {
           Field{"energy.base_watts", energy.base_watts},
           Field{"energy.limit_watts", energy.limit_watts},
       }) {
    if (!(field.value > 0)) AddWrong(field, "positive", wrong);
  }
  for (const Field& field : {
           Field{"energy.idle_watts", energy.idle_watts},
           Field{"energy.joules_per_byte", energy.joules_per_byte},
           Field{"energy.joules_per_flop", energy.joules_per_flop},
           Field{"energy.joules_per_activation_byte", energy.joules_per_activation_byte},
           Field{"energy.joules_per_routed_byte", energy.joules_per_routed_byte},
           Field{"energy.joules_per_link_byte", energy.joules_per_link_byte},
       }) {
    if (!(field.value >= 0)) AddWrong(field, "0 or more", wrong);
  }
  RequireSource("energy.source", energy.source, wrong);
}

void CheckPrice(const PriceSpec& price, std::string& wrong) {
  if (!(price.usd_per_hour > 0)) {
    AddWrong({"price.usd_per_hour", price.usd_per_hour}, "positive", wrong);
  }
  RequireSource("price.date", price.date, wrong);
  RequireSource("price.source", price.source, wrong);
}

void CheckDataflow(const DataflowSpec& dataflow, std::string& wrong) {
  if (!(dataflow.install_bytes_per_s > 0)) {
    AddWrong({"dataflow.install_bytes_per_s", dataflow.install_bytes_per_s}, "positive", wrong);
  }
  for (const Field& field : {
           Field{"dataflow.layer_overhead_s", dataflow.layer_overhead_s},
           Field{"dataflow.dispatch_s", dataflow.dispatch_s},
           Field{"dataflow.global_links", static_cast<double>(dataflow.global_links)},
           Field{"dataflow.reserve_bytes", static_cast<double>(dataflow.reserve_bytes)},
       }) {
    if (!(field.value >= 0)) AddWrong(field, "0 or more", wrong);
  }
  const std::int64_t size = ByteSize(dataflow.compute_dtype);
  if (size != 1 && size != 2) {
    wrong += fmt::format("{}dataflow.compute_dtype is {}, must have 8 or 16 bits",
                         wrong.empty() ? "" : "; ", Name(dataflow.compute_dtype));
  }
  double before = 0;
  for (const ReachLatency& reach : dataflow.reach) {
    if (!(reach.bytes > before)) {
      AddWrong({"dataflow.reach.bytes", reach.bytes}, "larger than the one before", wrong);
    }
    if (!(reach.latency_s >= 0)) {
      AddWrong({"dataflow.reach.latency_s", reach.latency_s}, "0 or more", wrong);
    }
    before = reach.bytes;
  }
  RequireSource("dataflow.source", dataflow.source, wrong);
}

}  // namespace

// Conditions are written so that NaN fails them.
void Validate(const HardwareSpec& h) {
  std::string wrong;
  // Dataflow machines need no unit for it.
  const double fp32 = h.dataflow && h.peak_fp32_flops == 0 ? 1 : h.peak_fp32_flops;
  for (const Field& field : {
           Field{"memory_bytes", static_cast<double>(h.memory_bytes)},
           Field{"memory_bandwidth_bytes_per_s", h.memory_bandwidth_bytes_per_s},
           Field{"peak_fp32_flops", fp32},
           Field{"link_bandwidth_bytes_per_s", h.link_bandwidth_bytes_per_s},
           Field{"devices_per_node", static_cast<double>(h.devices_per_node)},
           Field{"inter_node_bandwidth_bytes_per_s", h.inter_node_bandwidth_bytes_per_s},
           Field{"pcie_bandwidth_bytes_per_s", h.pcie_bandwidth_bytes_per_s},
       }) {
    if (!(field.value > 0)) AddWrong(field, "positive", wrong);
  }
  for (const Field& field : {
           Field{"gemm_flops_fraction", h.gemm_flops_fraction},
           Field{"gemm_bandwidth_fraction", h.gemm_bandwidth_fraction},
           Field{"attention_flops_fraction", h.attention_flops_fraction},
           Field{"attention_bandwidth_fraction", h.attention_bandwidth_fraction},
           Field{"elementwise_bandwidth_fraction", h.elementwise_bandwidth_fraction},
           Field{"link_bandwidth_fraction", h.link_bandwidth_fraction},
           Field{"pcie_bandwidth_fraction", h.pcie_bandwidth_fraction},
       }) {
    if (!(field.value > 0 && field.value <= 1)) AddWrong(field, "within (0, 1]", wrong);
  }
  for (const Field& field : {
           Field{"sm_count", static_cast<double>(h.sm_count)},
           Field{"l2_bytes", static_cast<double>(h.l2_bytes)},
           Field{"peak_tf32_flops", h.peak_tf32_flops},
           Field{"peak_bf16_flops", h.peak_bf16_flops},
           Field{"peak_fp8_flops", h.peak_fp8_flops},
           Field{"peak_fp4_flops", h.peak_fp4_flops},
           Field{"peak_int8_flops", h.peak_int8_flops},
           Field{"link_latency_s", h.link_latency_s},
           Field{"inter_node_latency_s", h.inter_node_latency_s},
           Field{"pcie_latency_s", h.pcie_latency_s},
           Field{"host_memory_bytes", static_cast<double>(h.host_memory_bytes)},
           Field{"gemm_latency_s", h.gemm_latency_s},
           Field{"attention_latency_s", h.attention_latency_s},
           Field{"attention_per_request_s", h.attention_per_request_s},
           Field{"elementwise_latency_s", h.elementwise_latency_s},
       }) {
    if (!(field.value >= 0)) AddWrong(field, "0 or more", wrong);
  }
  if (h.energy) CheckEnergy(*h.energy, wrong);
  if (h.price) CheckPrice(*h.price, wrong);
  if (h.dataflow) CheckDataflow(*h.dataflow, wrong);
  if (!wrong.empty()) throw InputError(InputError::Kind::kUsage, "hardware " + h.name, wrong);
}

}  // namespace twin
