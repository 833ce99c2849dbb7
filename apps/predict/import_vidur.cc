#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/predict/gemm_import.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/layer_attention_import.h"
#include "apps/predict/profile_output.h"
#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "core/files/csv.h"
#include "core/input_error.h"
#include "run/run_control.h"

namespace twin::run {
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
  return PresetOfDevice(device);
}

// The file, plain or gzip; empty if there is none.
std::filesystem::path Find(const std::filesystem::path& folder, std::string_view name) {
  for (const std::string_view ending : {"", ".gz"}) {
    std::filesystem::path path = folder / fmt::format("{}{}", name, ending);
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

// Groups of rows by preset, and how many rows were skipped.
template <class T>
class ByPreset {
 public:
  // `column` names the device.
  ByPreset(const CsvTable& table, std::string_view column) : table_(table), column_(column) {}

  // The group of the row's device; null, and skipped, without data sheet. Throws InputError if rows
  // of another device have the same data sheet: their times cannot be told from this one's.
  T* OfRow() {
    const std::string_view device = table_.Text(column_);
    const std::string_view preset = VidurPreset(device);
    if (preset.empty()) {
      Skip(fmt::format("rows of \"{}\", which has no data sheet", device));
      return nullptr;
    }
    Group& group = groups_[preset];
    if (group.device.empty()) group.device = device;
    if (group.device != device) {
      table_.Refuse(column_, fmt::format("\"{}\" in all rows of {}", group.device, preset));
    }
    return &group.rows;
  }

  // `what`: "rows without ...".
  void Skip(const std::string& what) { ++skipped_[what]; }

  // Warns of what was skipped, and calls `write` with each preset and its group.
  template <class Write>
  void ForEach(const std::filesystem::path& file, RunControl& control, Write write) const {
    for (const auto& [what, count] : skipped_) {
      control.OnWarning(fmt::format("{}: skipped {} {}", file.string(), count, what));
    }
    for (const auto& [preset, group] : groups_) write(preset, group.rows);
  }

 private:
  struct Group {
    std::string device;
    T rows;
  };

  const CsvTable& table_;
  std::string column_;
  std::map<std::string_view, Group> groups_;
  std::map<std::string, std::int64_t> skipped_;
};

bool IsGiven(const CsvTable& table, std::string_view column) {
  return !table.Text(column).empty() && table.Text(column) != "0" && table.Text(column) != "nan";
}

std::string Origin(std::string_view what, std::string_view preset,
                   const std::filesystem::path& file) {
  return fmt::format("{} of {}, from Vidur (MIT), {}; written by \"twinserve import vidur\".", what,
                     preset, file.filename().string());
}

void AddProducts(const CsvTable& table, ByPreset<GemmRows>& devices) {
  GemmRows* const rows = devices.OfRow();
  if (rows == nullptr) return;
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
    if (!IsGiven(table, column)) {
      devices.Skip(fmt::format("empty fields {}", column));
      return;
    }
    rows->rows.push_back({.m = size("num_tokens"),
                          .n = n,
                          .k = k,
                          .seconds = 1e-6 * table.Positive(column, kLatencyUsMax)});
  };
  add("attn_pre_proj_us", queries + 2 * keys, hidden);
  add("attn_post_proj_us", hidden, queries);
  add("mlp_up_proj_us", up, hidden);
  add("mlp_down_proj_us", hidden, inner);
}

void ImportProducts(const std::filesystem::path& file, ProfileOutput& out, RunControl& control) {
  CsvTable table(file.string(),
                 {"gpu", "tp", "n_embd", "n_head", "n_kv_head", "ffn", "gated", "num_tokens",
                  "attn_pre_proj_us", "attn_post_proj_us", "mlp_up_proj_us", "mlp_down_proj_us"});
  ByPreset<GemmRows> devices(table, "gpu");
  while (table.Next()) {
    EndIfStopped(control);
    AddProducts(table, devices);
  }
  devices.ForEach(file, control, [&](std::string_view preset, const GemmRows& rows) {
    if (rows.rows.empty()) return;
    GemmRows named = rows;
    named.versions = {"vllm of 2024"};
    const GemmImport import = ImportGemm(HardwarePreset(preset), named, control);
    out.Add(preset, ProfilePart::kGemm,
            WriteGemmImport(import, named, Origin("Matrix products", preset, file)));
  });
}

using Calls = std::map<std::int32_t, std::vector<LayerCall>>;  // by head dimension

void AddCall(const CsvTable& table, ByPreset<Calls>& devices) {
  Calls* const calls = devices.OfRow();
  if (calls == nullptr) return;
  const auto count = [&](std::string_view column, std::int64_t low) {
    return static_cast<std::int32_t>(table.Integer(column, low, kSizeMax));
  };
  const std::int32_t ranks = count("tp", 1);
  const std::int32_t heads = count("n_q_head_total", 1);
  const std::int32_t hidden = count("n_embd", 1);
  if (hidden % heads != 0) table.Refuse("n_embd", "a multiple of n_q_head_total");
  const std::int32_t chunk = count("prefill_chunk", 0);
  const std::string_view column = chunk > 0 ? "attn_prefill_us" : "attn_decode_us";
  const auto cached = static_cast<std::uint32_t>(count("kv_cache_len", 0));
  if (!IsGiven(table, column)) {
    devices.Skip(fmt::format("rows without {}", column));
    return;
  }
  if (chunk == 0 && cached == 0) {
    devices.Skip("rows of decodes without context");
    return;
  }
  LayerCall call{.query_heads = std::max(1, heads / ranks),
                 .kv_heads = std::max(1, count("n_kv_head_total", 1) / ranks),
                 .microseconds = table.Positive(column, kLatencyUsMax)};
  if (chunk > 0) {
    call.chunk = static_cast<std::uint32_t>(chunk);
    call.past = cached;
  } else {
    call.decodes = static_cast<std::uint32_t>(count("batch_size", 1));
    call.context = cached;
  }
  (*calls)[hidden / heads].push_back(call);
}

bool HasBothKinds(const std::vector<LayerCall>& calls) {
  const auto prompts = std::ranges::count_if(calls, [](const LayerCall& c) { return c.chunk > 0; });
  return prompts > 0 && prompts < std::ssize(calls);
}

// Adds the tables and grids of `more`, whose indices refer to its own lists.
void Append(const sim::AttentionProfile& more, sim::AttentionProfile& profile) {
  const auto grids = static_cast<std::uint32_t>(profile.grids.size());
  const auto tables = static_cast<std::int32_t>(profile.tables.size());
  for (sim::AttentionTable table : more.tables) {
    table.grid += grids;
    if (table.base >= 0) table.base += tables;
    profile.tables.push_back(std::move(table));
  }
  profile.grids.insert(profile.grids.end(), more.grids.begin(), more.grids.end());
}

// The tables of all head dimensions. One with prompts alone or decodes alone is left out, unless it
// is the only one, which is then refused.
LayerAttentionImport ImportHeadDims(std::string_view preset, const Calls& calls,
                                    const std::filesystem::path& file, RunControl& control) {
  LayerAttentionImport all;
  for (const auto& [head_dim, rows] : calls) {
    if (calls.size() > 1 && !HasBothKinds(rows)) {
      control.OnWarning(
          fmt::format("{}: skipped {} rows of {} with heads of {}, which have no prompts or no "
                      "decodes",
                      file.string(), rows.size(), preset, head_dim));
      continue;
    }
    LayerAttentionImport one =
        ImportLayerAttention(HardwarePreset(preset), head_dim, rows, file.string(), control);
    if (calls.size() == 1) return one;
    Append(one.profile, all.profile);
    for (const std::string& line : one.report) {
      all.report.push_back(fmt::format("heads of {}, {}", head_dim, line));
    }
  }
  if (all.profile.tables.empty()) {
    throw InputError(InputError::Kind::kData, file.string(),
                     fmt::format("has no head dimension of {} with both prompts and decodes; "
                                 "allowed: one or more",
                                 preset));
  }
  return all;
}

void ImportCalls(const std::filesystem::path& file, ProfileOutput& out, RunControl& control) {
  CsvTable table(file.string(),
                 {"gpu", "tp", "n_q_head_total", "n_kv_head_total", "n_embd", "batch_size",
                  "prefill_chunk", "kv_cache_len", "attn_prefill_us", "attn_decode_us"});
  ByPreset<Calls> devices(table, "gpu");
  while (table.Next()) {
    EndIfStopped(control);
    AddCall(table, devices);
  }
  devices.ForEach(file, control, [&](std::string_view preset, const Calls& calls) {
    if (calls.empty()) return;  // every row was skipped
    LayerAttentionImport import = ImportHeadDims(preset, calls, file, control);
    sim::DeviceProfile device;
    device.attention = std::move(import.profile);
    out.Add(preset, ProfilePart::kAttention,
            fmt::format("# {}\n# Rows, errors (median / p90) of the closed form, and of heads that "
                        "the table is made without:\n# {}\n{}",
                        Origin("Attention", preset, file), fmt::join(import.report, "\n# "),
                        WriteProfilePart(device, ProfilePart::kAttention)));
  });
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

void AddTransfer(const CsvTable& table, ByPreset<CollectiveCurves>& systems) {
  static const std::vector<std::pair<std::string_view, sim::Collective>> words = {
      {"all_reduce", sim::Collective::kAllReduce}, {"send_recv", sim::Collective::kSend}};
  CollectiveCurves* const curves = systems.OfRow();
  if (curves == nullptr) return;
  const std::int64_t workers = table.Integer("num_workers", 2, kSizeMax);
  if (table.Integer("devices_per_node", 1, kSizeMax) != workers) {
    systems.Skip("rows of workers on several nodes");
    return;
  }
  const sim::Collective kind = table.Word("op", words, sim::Collective::kAllReduce);
  const bool is_new = (*curves)[{kind, static_cast<std::int32_t>(workers)}]
                          .emplace(table.Integer("bytes", 1, kPayloadMax),
                                   table.Positive("latency_us", kLatencyUsMax))
                          .second;
  if (!is_new) table.Refuse("bytes", "one row for each payload of an operation and its workers");
}

void ImportNetwork(const std::filesystem::path& file, ProfileOutput& out, RunControl& control) {
  CsvTable table(file.string(),
                 {"system", "op", "num_workers", "devices_per_node", "bytes", "latency_us"});
  ByPreset<CollectiveCurves> systems(table, "system");
  while (table.Next()) {
    EndIfStopped(control);
    AddTransfer(table, systems);
  }
  systems.ForEach(file, control, [&](std::string_view preset, const CollectiveCurves& curves) {
    if (curves.empty()) return;  // every row was skipped
    sim::DeviceProfile device;
    device.collectives = ProfileOf(curves);
    out.Add(preset, ProfilePart::kCollectives,
            fmt::format("# {}\n{}", Origin("Collectives", preset, file),
                        WriteProfilePart(device, ProfilePart::kCollectives)));
  });
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
  ProfileOutput output(out);
  if (!network.empty()) ImportNetwork(network, output, control);
  if (!attention.empty()) ImportCalls(attention, output, control);
  if (!dense.empty()) ImportProducts(dense, output, control);
  if (!output.empty()) {
    output.Commit(control);
    return;
  }
  throw InputError(InputError::Kind::kData, folder.string(),
                   "holds no row of a device with a data sheet; allowed: one or more (twinserve "
                   "doctor --list hardware)");
}

}  // namespace twin::run
