#include "apps/doctor_lists.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/model_presets.h"
#include "proto/configuration_page.h"
#include "proto/hardware_file.h"
#include "proto/server_presets.h"
#include "record/metric_table.h"

namespace twin::apps {
namespace {

using Row = std::vector<std::string>;

std::string Scaled(double value, double unit, int decimals) {
  return value == 0 ? "-" : fmt::format("{:.{}f}", value / unit, decimals);
}

void PrintModels(std::ostream& out) {
  std::vector<Row> rows = {{"model", "parameters B", "active B", "layers", "hidden", "heads",
                            "KV heads", "positions", "weights GB", "KV kB/token"}};
  for (const std::string_view name : ModelPresetNames()) {
    const ModelSpec model = ModelPreset(name);
    const auto weights = static_cast<double>(WeightBytesPerRank(model, {}, 0));
    rows.push_back({std::string(name), Scaled(static_cast<double>(TotalParameters(model)), 1e9, 2),
                    Scaled(static_cast<double>(ActiveParameters(model)), 1e9, 2),
                    fmt::format("{}", model.layers), fmt::format("{}", model.hidden),
                    fmt::format("{}", model.query_heads), fmt::format("{}", model.kv_heads),
                    fmt::format("{}", model.max_position), Scaled(weights, 1e9, 1),
                    Scaled(static_cast<double>(KvBytesPerToken(model)), 1e3, 1)});
  }
  WriteAligned(out, rows, 1);
  out << "\nUse: system { model: \"NAME\" }\n";
}

void PrintHardware(std::ostream& out) {
  std::vector<Row> rows = {{"hardware", "memory GB", "GB/s", "bf16 TFLOP/s", "fp8 TFLOP/s",
                            "int8 TOP/s", "link GB/s", "devices/node"}};
  for (const std::string_view name : HardwarePresetNames()) {
    const HardwareSpec spec = HardwarePreset(name);
    rows.push_back({std::string(name), Scaled(static_cast<double>(spec.memory_bytes), 1e9, 0),
                    Scaled(spec.memory_bandwidth_bytes_per_s, 1e9, 0),
                    Scaled(spec.peak_bf16_flops, 1e12, 1), Scaled(spec.peak_fp8_flops, 1e12, 1),
                    Scaled(spec.peak_int8_flops, 1e12, 1),
                    Scaled(spec.link_bandwidth_bytes_per_s, 1e9, 0),
                    fmt::format("{}", spec.devices_per_node)});
  }
  WriteAligned(out, rows, 1);
  out << "\nUse: system { hardware: \"NAME\" }\n";
}

void PrintServers(std::ostream& out) {
  for (const ServerPreset& server : ServerPresets()) {
    out << fmt::format("{:<13}  {:<7}  {}\n", server.name, server.policy, server.source);
  }
  out << "\nUse: system { server: \"NAME\" }; config.resolved.textproto shows what it fills in\n";
}

void PrintChoices(const std::vector<ConfigurationChoice>& choices, const char* use,
                  std::ostream& out) {
  for (const ConfigurationChoice& choice : choices) {
    out << choice.name << "\n  " << choice.description << "\n";
    for (const std::string& value : choice.defaults) out << "    " << value << "\n";
    out << "\n";
  }
  out << use;
}

}  // namespace

void PrintList(DoctorList list, std::ostream& out) {
  switch (list) {
    case DoctorList::kNone:
      return;
    case DoctorList::kModels:
      return PrintModels(out);
    case DoctorList::kHardware:
      return PrintHardware(out);
    case DoctorList::kServers:
      return PrintServers(out);
    case DoctorList::kPolicies:
      return PrintChoices(PolicyChoices(), "Use: policy { NAME { FIELD: VALUE } }\n", out);
    case DoctorList::kCostModels:
      return PrintChoices(CostChoices(), "Use: cost { NAME { FIELD: VALUE } }\n", out);
    case DoctorList::kConfiguration:
      out << ConfigurationPage();
      return;
  }
}

}  // namespace twin::apps
