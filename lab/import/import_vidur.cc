#include "lab/import/import_vidur.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "lab/import/gemm_import.h"
#include "lab/import/layer_attention_import.h"
#include "lab/import/profile_output.h"
#include "lab/predict/operation_table.h"
#include "proto/hardware_file.h"
#include "proto/profile_file.h"

namespace twin::lab {
namespace {

constexpr std::int64_t kSizeMax = 1 << 24;
constexpr std::int64_t kPayloadMax = std::int64_t{1} << 50;
constexpr double kLatencyUsMax = 1e9;
// Payloads of a curve are at least this factor apart.
constexpr double kPayloadStep = 1.4;
constexpr double kCurveSpread = 0.1;

std::string_view VidurPreset(std::string_view device) {
  if (device == "a100" || device == "a100_dgx") return "a100-80gb-sxm";
  if (device == "h100" || device == "h100_dgx") return "h100-sxm";
  if (device == "a30") return "a30";
  return {};
}

// The file, plain or gzip; empty if there is none.
std::filesystem::path Find(const std::filesystem::path& folder, std::string_view name) {
  for (const std::string_view ending : {"", ".gz"}) {
    std::filesystem::path path = folder / fmt::format("{}{}", name, ending);
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

// Groups of rows by preset; names each unknown device once.
template <class T>
class ByPreset {
 public:
  ByPreset(std::filesystem::path file, RunControl& control)
      : file_(std::move(file)), control_(control) {}

  // Null for a device without data sheet.
  T* Of(std::string_view device) {
    const std::string_view preset = VidurPreset(device);
    if (!preset.empty()) return &groups_[preset];
    if (skipped_.emplace(device, true).second) {
      control_.OnWarning(fmt::format("{}: \"{}\" skipped, no data sheet", file_.string(), device));
    }
    return nullptr;
  }
  [[nodiscard]] const std::map<std::string_view, T>& groups() const { return groups_; }

 private:
  std::filesystem::path file_;
  RunControl& control_;
  std::map<std::string_view, T> groups_;
  std::map<std::string, bool, std::less<>> skipped_;
};

bool IsGiven(const OperationTable& table, std::string_view column) {
  return !table.Text(column).empty() && table.Text(column) != "0" && table.Text(column) != "nan";
}

std::string Origin(std::string_view what, std::string_view preset,
                   const std::filesystem::path& file) {
  return fmt::format("{} of {}, from Vidur (MIT), {}; written by \"twinserve import vidur\".", what,
                     preset, file.filename().string());
}

void AddProducts(const OperationTable& table, GemmRows& rows) {
  const auto size = [&](std::string_view column) { return table.Integer(column, 1, kSizeMax); };
  static const std::vector<std::pair<std::string_view, std::int64_t>> words = {{"True", 2},
                                                                               {"False", 1}};
  const std::int64_t ranks = size("tp");
  const std::int64_t hidden = size("n_embd");
  const std::int64_t head = hidden / size("n_head");
  const std::int64_t queries = hidden / ranks;
  const std::int64_t keys = std::max<std::int64_t>(1, size("n_kv_head") / ranks) * head;
  const std::int64_t inner = size("ffn") / ranks;
  const std::int64_t up = table.Word("gated", words, std::int64_t{2}) * inner;
  const auto add = [&](std::string_view column, std::int64_t n, std::int64_t k) {
    if (!IsGiven(table, column)) return;
    rows.rows.push_back({.m = size("num_tokens"),
                         .n = n,
                         .k = k,
                         .seconds = 1e-6 * table.Positive(column, kLatencyUsMax)});
  };
  add("attn_pre_proj_us", queries + 2 * keys, hidden);
  add("attn_post_proj_us", hidden, queries);
  add("mlp_up_proj_us", up, hidden);
  add("mlp_down_proj_us", hidden, inner);
}

void ImportProducts(const std::filesystem::path& file, const std::filesystem::path& out,
                    RunControl& control) {
  OperationTable table(file.string(), {"gpu", "tp", "n_embd", "n_head", "n_kv_head", "ffn", "gated",
                                       "num_tokens", "attn_pre_proj_us", "attn_post_proj_us",
                                       "mlp_up_proj_us", "mlp_down_proj_us"});
  ByPreset<GemmRows> devices(file, control);
  while (table.Next()) {
    if (GemmRows* rows = devices.Of(table.Text("gpu"))) AddProducts(table, *rows);
  }
  for (const auto& [preset, rows] : devices.groups()) {
    GemmRows named = rows;
    named.versions = {"vllm of 2024"};
    const GemmImport import = ImportGemm(HardwarePreset(preset), named, control);
    WriteImportedPart(out, preset, ProfilePart::kGemm,
                      WriteGemmImport(import, named, Origin("Matrix products", preset, file)),
                      control);
  }
}

struct Calls {
  std::int32_t head_dim = 0;
  std::vector<LayerCall> calls;
};

void AddCall(const OperationTable& table, Calls& calls) {
  const auto count = [&](std::string_view column, std::int64_t low) {
    return static_cast<std::int32_t>(table.Integer(column, low, kSizeMax));
  };
  const std::int32_t ranks = count("tp", 1);
  const std::int32_t heads = count("n_q_head_total", 1);
  const std::int32_t chunk = count("prefill_chunk", 0);
  const std::string_view column = chunk > 0 ? "attn_prefill_us" : "attn_decode_us";
  if (!IsGiven(table, column)) return;
  const std::int32_t head_dim = count("n_embd", 1) / heads;
  if (calls.head_dim == 0) calls.head_dim = head_dim;
  if (calls.head_dim != head_dim) return;
  LayerCall call{.query_heads = std::max(1, heads / ranks),
                 .kv_heads = std::max(1, count("n_kv_head_total", 1) / ranks),
                 .microseconds = table.Positive(column, kLatencyUsMax)};
  const auto cached = static_cast<std::uint32_t>(count("kv_cache_len", 0));
  if (chunk > 0) {
    call.chunk = static_cast<std::uint32_t>(chunk);
    call.past = cached;
  } else {
    call.decodes = static_cast<std::uint32_t>(count("batch_size", 1));
    call.context = cached;
  }
  calls.calls.push_back(call);
}

void ImportCalls(const std::filesystem::path& file, const std::filesystem::path& out,
                 RunControl& control) {
  OperationTable table(file.string(),
                       {"gpu", "tp", "n_q_head_total", "n_kv_head_total", "n_embd", "batch_size",
                        "prefill_chunk", "kv_cache_len", "attn_prefill_us", "attn_decode_us"});
  ByPreset<Calls> devices(file, control);
  while (table.Next()) {
    if (Calls* calls = devices.Of(table.Text("gpu"))) AddCall(table, *calls);
  }
  for (const auto& [preset, calls] : devices.groups()) {
    LayerAttentionImport import =
        ImportLayerAttention(HardwarePreset(preset), calls.head_dim, calls.calls, file.string());
    sim::DeviceProfile device;
    device.attention = std::move(import.profile);
    WriteImportedPart(
        out, preset, ProfilePart::kAttention,
        fmt::format("# {}\n# Rows, errors (median / p90) of the closed form, and of heads that "
                    "the table is made without:\n# {}\n{}",
                    Origin("Attention", preset, file), fmt::join(import.report, "\n# "),
                    WriteProfilePart(device, ProfilePart::kAttention)),
        control);
  }
}

using CurveKey = std::pair<sim::Collective, std::int32_t>;
using CollectiveCurves = std::map<CurveKey, std::map<std::int64_t, double>>;

sim::CollectiveProfile ProfileOf(const CollectiveCurves& curves) {
  sim::CollectiveProfile profile;
  for (const auto& [key, times] : curves) {
    sim::CollectiveCurve& curve = profile.curves.emplace_back();
    std::tie(curve.kind, curve.ranks) = key;
    curve.implementation = sim::CollectiveImplementation::kNccl;
    curve.spread = kCurveSpread;
    for (const auto& [bytes, microseconds] : times) {
      const auto payload = static_cast<double>(bytes);
      if (!curve.bytes.empty() && payload < kPayloadStep * curve.bytes.back()) continue;
      curve.bytes.push_back(payload);
      curve.microseconds.push_back(microseconds);
    }
  }
  return profile;
}

void ImportNetwork(const std::filesystem::path& file, const std::filesystem::path& out,
                   RunControl& control) {
  OperationTable table(file.string(),
                       {"system", "op", "num_workers", "devices_per_node", "bytes", "latency_us"});
  static const std::vector<std::pair<std::string_view, sim::Collective>> words = {
      {"all_reduce", sim::Collective::kAllReduce}, {"send_recv", sim::Collective::kSend}};
  ByPreset<CollectiveCurves> systems(file, control);
  while (table.Next()) {
    const std::int64_t workers = table.Integer("num_workers", 2, kSizeMax);
    if (table.Integer("devices_per_node", 1, kSizeMax) != workers) continue;
    CollectiveCurves* curves = systems.Of(table.Text("system"));
    if (curves == nullptr) continue;
    const sim::Collective kind = table.Word("op", words, sim::Collective::kAllReduce);
    (*curves)[{kind, static_cast<std::int32_t>(workers)}][table.Integer("bytes", 1, kPayloadMax)] =
        table.Positive("latency_us", kLatencyUsMax);
  }
  for (const auto& [preset, curves] : systems.groups()) {
    sim::DeviceProfile device;
    device.collectives = ProfileOf(curves);
    WriteImportedPart(out, preset, ProfilePart::kCollectives,
                      fmt::format("# {}\n{}", Origin("Collectives", preset, file),
                                  WriteProfilePart(device, ProfilePart::kCollectives)),
                      control);
  }
}

}  // namespace

void ImportVidur(const std::filesystem::path& folder, const std::filesystem::path& out,
                 RunControl& control) {
  const std::filesystem::path dense = Find(folder, "dense_ops.csv");
  const std::filesystem::path attention = Find(folder, "attention.csv");
  const std::filesystem::path network = Find(folder, "network.csv");
  if (dense.empty() && attention.empty() && network.empty()) {
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     "holds no table; allowed: a folder with dense_ops.csv, attention.csv or "
                     "network.csv, plain or .gz");
  }
  if (!network.empty()) ImportNetwork(network, out, control);
  if (!attention.empty()) ImportCalls(attention, out, control);
  if (!dense.empty()) ImportProducts(dense, out, control);
}

}  // namespace twin::lab
