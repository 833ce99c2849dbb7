#include "apps/predict/attention_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "apps/predict/operation_predictor.h"
#include "core/files/csv.h"
#include "run/run_control.h"
#include "sim/devices/operations/attention_table.h"
#include "sim/devices/operations/fit_attention.h"

namespace twin::run {
namespace {

constexpr std::int64_t kImportedHeadsMax = 4096;
constexpr std::int64_t kImportedTokensMax = std::int64_t{1} << 30;
constexpr double kMicrosecondsMax = 1e12;

DType FormatOf(const CsvTable& row, std::string_view column) {
  static const std::vector<std::pair<std::string_view, DType>> words = {
      {"bfloat16", DType::kBf16}, {"fp8", DType::kFp8}, {"int8", DType::kInt8}};
  return row.Word(column, words, DType::kBf16);
}

using Key = std::tuple<sim::KernelLibrary, DType, DType, std::int32_t, std::int32_t>;
using Call = std::tuple<std::int32_t, std::int32_t, std::uint32_t, std::uint32_t>;

struct Measurements {
  // A later row of the same call replaces an earlier one.
  std::map<Key, std::map<Call, double>> tables;
  std::vector<std::string> versions;
};

Measurements Read(sim::AttentionKind kind, const std::string& path, const RunControl& control) {
  const std::string_view length = kind == sim::AttentionKind::kContext ? "seq_len" : "kv_len";
  CsvTable table(path, {"backend", "version", "attn_dtype", "kv_dtype", "num_heads", "num_kv_heads",
                        "head_dim", "window", "batch", length, "latency_us"});
  Measurements all;
  std::set<std::string> versions;
  while (table.Next()) {
    EndIfStopped(control);
    const auto number = [&](std::string_view column, std::int64_t low, std::int64_t high) {
      return static_cast<std::int32_t>(table.Integer(column, low, high));
    };
    const Key key{LibraryOf(table), FormatOf(table, "attn_dtype"), FormatOf(table, "kv_dtype"),
                  number("head_dim", 1, kImportedHeadsMax),
                  number("window", 0, kImportedTokensMax)};
    const Call call{number("num_heads", 1, kImportedHeadsMax),
                    number("num_kv_heads", 1, kImportedHeadsMax),
                    static_cast<std::uint32_t>(number("batch", 1, kImportedTokensMax)),
                    static_cast<std::uint32_t>(number(length, 1, kImportedTokensMax))};
    if (std::get<0>(call) % std::get<1>(call) != 0) {
      table.Refuse("num_heads", "a multiple of num_kv_heads");
    }
    all.tables[key][call] = table.Positive("latency_us", kMicrosecondsMax);
    const std::string version = fmt::format("{} {}", table.Text("backend"), table.Text("version"));
    if (versions.insert(version).second) all.versions.push_back(version);
  }
  return all;
}

std::string TableName(const sim::AttentionTable& table) {
  return fmt::format("{} {} {}/{} {} {}",
                     table.kind == sim::AttentionKind::kContext ? "context" : "generation",
                     NameOf(table.library), twin::Name(table.compute_dtype),
                     twin::Name(table.kv_dtype), table.head_dim, table.window);
}

std::string Describe(const sim::AttentionFit& fit) {
  return fmt::format("{}: {}, {:.1f}/{:.1f}, {:.1f}/{:.1f}", TableName(fit.table), fit.samples,
                     100 * fit.formula_median, 100 * fit.formula_p90, 100 * fit.held_out_median,
                     100 * fit.held_out_p90);
}

std::size_t CutRatios(const sim::AttentionTable& table) {
  std::size_t count = 0;
  for (const std::string& row : table.rows) count += sim::CutRatios(row);
  return count;
}

bool IsBf16(const sim::AttentionTable& table) {
  return table.compute_dtype == DType::kBf16 && table.kv_dtype == DType::kBf16;
}

// Number of pairs of query and KV heads from which a table can be a base.
constexpr std::size_t kManyPairs = 20;

// Whether other tables may be based on this one.
bool IsBase(const sim::AttentionTable& table, std::size_t pairs) {
  return IsBf16(table) && table.window == 0 && pairs >= kManyPairs;
}

bool IsMain(const sim::AttentionTable& table) { return table.head_dim == 128; }

// Adds fits to a profile and remembers the tables that may be bases.
class TableWriter {
 public:
  TableWriter(sim::AttentionProfile& profile, AttentionImport& result)
      : profile_(profile), result_(result) {}

  void Add(sim::AttentionFit fit, bool is_base) {
    result_.report.push_back(Describe(fit));
    if (const std::size_t cut = CutRatios(fit.table); cut > 0) {
      result_.warnings.push_back(
          fmt::format("{}: measurements cut at a factor of {:.1f} from the closed form, the most "
                      "that a table holds: {}",
                      TableName(fit.table), sim::LargestRatio(), cut));
    }
    if (fit.table.base == 0) fit.table.base = base_position_;
    const auto grid = std::ranges::find(profile_.grids, fit.grid);
    fit.table.grid = static_cast<std::uint32_t>(grid - profile_.grids.begin());
    if (grid == profile_.grids.end()) profile_.grids.push_back(fit.grid);
    if (is_base) bases_.emplace_back(profile_.tables.size(), fit);
    profile_.tables.push_back(std::move(fit.table));
  }

  // The base of the same library with the same head size, or else 128.
  const sim::AttentionFit* BaseFor(const sim::AttentionTable& table) {
    const sim::AttentionFit* best = nullptr;
    for (const auto& [position, fit] : bases_) {
      if (fit.table.library != table.library) continue;
      const bool same = fit.table.head_dim == table.head_dim;
      if (!same && (best != nullptr || !IsMain(fit.table))) continue;
      best = &fit;
      base_position_ = static_cast<std::int32_t>(position);
      if (same) break;
    }
    return best;
  }

 private:
  sim::AttentionProfile& profile_;
  AttentionImport& result_;
  std::vector<std::pair<std::size_t, sim::AttentionFit>> bases_;
  std::int32_t base_position_ = -1;
};

struct Task {
  sim::AttentionTable key;
  std::vector<sim::AttentionMeasurement> samples;
  bool is_base = false;
};

std::vector<Task> TasksOf(const Measurements& all, sim::AttentionKind kind) {
  std::vector<Task> tasks;
  for (const auto& [key, calls] : all.tables) {
    Task& task = tasks.emplace_back();
    task.key.kind = kind;
    std::tie(task.key.library, task.key.compute_dtype, task.key.kv_dtype, task.key.head_dim,
             task.key.window) = key;
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (const auto& [call, microseconds] : calls) {
      const auto& [query_heads, kv_heads, batch, length] = call;
      task.samples.push_back({query_heads, kv_heads, batch, length, microseconds});
      pairs.emplace(query_heads, kv_heads);
    }
    task.is_base = IsBase(task.key, pairs.size());
  }
  return tasks;
}

}  // namespace

AttentionImport ImportAttention(const HardwareSpec& hardware, sim::AttentionKind kind,
                                const std::string& path, sim::AttentionProfile& profile,
                                const RunControl& control) {
  const Measurements all = Read(kind, path, control);
  AttentionImport result;
  result.versions = all.versions;
  const std::vector<Task> tasks = TasksOf(all, kind);
  TableWriter tables(profile, result);
  const auto poll = [&control] { EndIfStopped(control); };
  for (const Task& task : tasks) {
    if (!task.is_base) continue;
    tables.Add(sim::FitAttention(hardware, task.key, task.samples,
                                 {.thins_lengths = !IsMain(task.key), .poll = poll}),
               true);
  }
  for (const Task& task : tasks) {
    if (task.is_base) continue;
    tables.Add(
        sim::FitAttention(hardware, task.key, task.samples,
                          {.thins_lengths = true, .base = tables.BaseFor(task.key), .poll = poll}),
        false);
  }
  return result;
}

}  // namespace twin::run
