#include "apps/doctor/doctor_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/configuration_page.h"
#include "config/hardware_file.h"
#include "config/models/families.h"
#include "config/models/model_names.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "run/record/metric_catalog.h"
#include "run/record/table.h"

namespace twin::apps {
namespace {

using nlohmann::ordered_json;

using Row = std::vector<std::string>;

std::string Scaled(double value, double unit, int decimals) {
  return value == 0 ? "-" : fmt::format("{:.{}f}", value / unit, decimals);
}

// The first layer with attention over cached keys.
LayerSpec FirstWithHeads(const ModelSpec& model) {
  const std::vector<LayerGroup> groups = OrderedLayers(model);
  const auto has = [](const LayerGroup& group) { return group.layer.query_heads > 0; };
  const auto first = std::ranges::find_if(groups, has);
  return first == groups.end() ? LayerSpec() : first->layer;
}

void PrintModels(std::ostream& out) {
  std::vector<Row> rows = {{"model", "parameters B", "active B", "layers", "hidden", "heads",
                            "KV heads", "positions", "weights GB", "KV kB/token", "MB/sequence"}};
  for (const std::string_view name : ModelPresetNames()) {
    const ModelSpec model = ModelPreset(name);
    const auto weights = static_cast<double>(WeightBytesPerRank(model, {}, 0));
    const KvBytes kv = CachedBytes(model, {}, 0);
    const LayerSpec heads = FirstWithHeads(model);
    rows.push_back({std::string(name), Scaled(static_cast<double>(TotalParameters(model)), 1e9, 2),
                    Scaled(static_cast<double>(ActiveParameters(model)), 1e9, 2),
                    fmt::format("{}", model.layers), fmt::format("{}", model.hidden),
                    fmt::format("{}", heads.query_heads), fmt::format("{}", heads.kv_heads),
                    fmt::format("{}", model.max_position), Scaled(weights, 1e9, 1),
                    Scaled(static_cast<double>(kv.per_token + kv.index_per_token), 1e3, 1),
                    Scaled(static_cast<double>(kv.per_sequence), 1e6, 1)});
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

ordered_json ModelsJson() {
  ordered_json list = ordered_json::array();
  for (const std::string_view name : ModelPresetNames()) {
    const ModelSpec model = ModelPreset(name);
    const KvBytes kv = CachedBytes(model, {}, 0);
    const LayerSpec heads = FirstWithHeads(model);
    list.push_back({{"model", name},
                    {"parameters", TotalParameters(model)},
                    {"active_parameters", ActiveParameters(model)},
                    {"layers", model.layers},
                    {"hidden", model.hidden},
                    {"query_heads", heads.query_heads},
                    {"kv_heads", heads.kv_heads},
                    {"max_position", model.max_position},
                    {"weight_bytes", WeightBytesPerRank(model, {}, 0)},
                    {"kv_bytes_per_token", kv.per_token},
                    {"index_bytes_per_token", kv.index_per_token},
                    {"kv_bytes_per_sequence", kv.per_sequence}});
  }
  return list;
}

ordered_json HardwareJson() {
  ordered_json list = ordered_json::array();
  for (const std::string_view name : HardwarePresetNames()) {
    const HardwareSpec spec = HardwarePreset(name);
    list.push_back({{"hardware", name},
                    {"memory_bytes", spec.memory_bytes},
                    {"memory_bandwidth_bytes_per_s", spec.memory_bandwidth_bytes_per_s},
                    {"peak_bf16_flops", spec.peak_bf16_flops},
                    {"peak_fp8_flops", spec.peak_fp8_flops},
                    {"peak_int8_flops", spec.peak_int8_flops},
                    {"link_bandwidth_bytes_per_s", spec.link_bandwidth_bytes_per_s},
                    {"devices_per_node", spec.devices_per_node}});
  }
  return list;
}

ordered_json ServersJson() {
  ordered_json list = ordered_json::array();
  for (const ServerPreset& server : ServerPresets()) {
    list.push_back({{"server", server.name}, {"policy", server.policy}, {"source", server.source}});
  }
  return list;
}

ordered_json ChoicesJson(const std::vector<ConfigurationChoice>& choices) {
  ordered_json list = ordered_json::array();
  for (const ConfigurationChoice& choice : choices) {
    list.push_back({{"name", choice.name},
                    {"description", choice.description},
                    {"defaults", choice.defaults}});
  }
  return list;
}

ordered_json ListJson(DoctorList list) {
  switch (list) {
    case DoctorList::kModels:
      return ModelsJson();
    case DoctorList::kHardware:
      return HardwareJson();
    case DoctorList::kServers:
      return ServersJson();
    case DoctorList::kPolicies:
      return ChoicesJson(PolicyChoices());
    case DoctorList::kCostModels:
      return ChoicesJson(CostChoices());
    case DoctorList::kNone:
    case DoctorList::kFamilies:
    case DoctorList::kConfiguration:
    case DoctorList::kMetrics:
    case DoctorList::kServerDefaults:
    case DoctorList::kServerSettings:
      break;
  }
  const char* const page = list == DoctorList::kFamilies         ? "families"
                           : list == DoctorList::kConfiguration  ? "configuration"
                           : list == DoctorList::kMetrics        ? "metrics"
                           : list == DoctorList::kServerDefaults ? "server-defaults"
                                                                 : "server-settings";
  throw InputError(InputError::Kind::kUsage, "--format",
                   fmt::format("json of --list {}, which is a page; allowed: table", page));
}

}  // namespace

void PrintListJson(DoctorList list, std::ostream& out) { out << ListJson(list).dump(2) << "\n"; }

void PrintList(DoctorList list, std::ostream& out) {
  switch (list) {
    case DoctorList::kNone:
      return;
    case DoctorList::kModels:
      return PrintModels(out);
    case DoctorList::kFamilies:
      out << ModelFamilyTable();
      return;
    case DoctorList::kHardware:
      return PrintHardware(out);
    case DoctorList::kServers:
      return PrintServers(out);
    case DoctorList::kServerDefaults:
      out << ServerDefaultsPage();
      return;
    case DoctorList::kServerSettings:
      out << ServerSettingsPage();
      return;
    case DoctorList::kPolicies:
      return PrintChoices(PolicyChoices(), "Use: policy { NAME { FIELD: VALUE } }\n", out);
    case DoctorList::kCostModels:
      return PrintChoices(CostChoices(), "Use: cost { NAME { FIELD: VALUE } }\n", out);
    case DoctorList::kConfiguration:
      out << ConfigurationPage();
      return;
    case DoctorList::kMetrics:
      out << MetricTables();
      return;
  }
}

}  // namespace twin::apps
