#include "apps/predict/collective_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/files/csv.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

constexpr std::int64_t kCollectiveRanksMax = 1 << 16;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 50;
// Neighboring payloads of one protocol differ by less. Where protocols change, times rise and stay
// high.
constexpr double kSpike = 1.3;
constexpr double kCollectiveUsMax = 1e12;
constexpr double kSpreadMin = 0.05;

struct Implementation {
  sim::CollectiveImplementation name{};
  bool captured = true;
};

Implementation ImplementationOf(const CsvTable& row) {
  using enum sim::CollectiveImplementation;
  static const std::vector<std::pair<std::string_view, Implementation>> words = {
      {"nccl", {kNccl, true}},
      {"vllm_graph", {kVllm, true}},
      {"vllm_eager", {kVllm, false}},
      {"sglang_graph", {kSglang, true}},
      {"sglang_eager", {kSglang, false}},
      {"trtllm", {kTrtllm, true}}};
  return row.Word("impl", words, Implementation{});
}

sim::Collective KindOf(const CsvTable& row) {
  using enum sim::Collective;
  static const std::vector<std::pair<std::string_view, sim::Collective>> words = {
      {"all_reduce", kAllReduce},
      {"all_gather", kAllGather},
      {"reduce_scatter", kReduceScatter},
      {"alltoall", kAllToAll}};
  return row.Word("op", words, kAllReduce);
}

// Logarithms of the times of one payload.
struct Times {
  double sum = 0;
  double squares = 0;
  int count = 0;

  [[nodiscard]] double mean() const { return sum / count; }
  [[nodiscard]] double variance() const { return std::max(0.0, squares / count - mean() * mean()); }
};

double FourDigits(double microseconds) {
  const double unit = std::pow(10.0, std::floor(std::log10(microseconds)) - 3);
  return std::round(microseconds / unit) * unit;
}

// Removes the noise of single measurements, as no message takes longer than a larger one: a time of
// more than kSpike times both neighbors' is interpolated between them; for the smallest payload,
// the time of its one neighbor counts. REQUIRES: bytes ascend.
void RemoveSpikes(sim::CollectiveCurve& curve) {
  const std::vector<double> measured = curve.microseconds;
  const std::size_t last = measured.size() - 1;
  for (std::size_t i = 0; i < last; ++i) {
    const std::size_t below = i == 0 ? 1 : i - 1;
    const double highest = std::max(measured[below], measured[i + 1]);
    if (measured[i] <= kSpike * highest) continue;
    const double share = std::log(curve.bytes[i] / curve.bytes[below]) /
                         std::log(curve.bytes[i + 1] / curve.bytes[below]);
    const double between =
        i == 0 ? measured[1] : measured[below] * std::pow(measured[i + 1] / measured[below], share);
    curve.microseconds[i] = FourDigits(between);
  }
}

sim::CollectiveCurve CurveOf(const std::map<std::int64_t, Times>& times) {
  sim::CollectiveCurve curve;
  double variance = 0;
  for (const auto& [bytes, logs] : times) {
    curve.bytes.push_back(static_cast<double>(bytes));
    curve.microseconds.push_back(FourDigits(std::exp(logs.mean())));
    variance += logs.variance();
  }
  const double spread = std::sqrt(variance / static_cast<double>(times.size()));
  if (curve.bytes.size() > 2) RemoveSpikes(curve);
  curve.spread = std::round(1e3 * std::max(kSpreadMin, spread)) / 1e3;
  return curve;
}

}  // namespace

CollectiveImport ImportCollectives(const std::string& path, const RunControl& control) {
  CsvTable table(path, {"impl", "version", "op", "num_gpus", "bytes", "latency_us"});
  using Key = std::tuple<sim::Collective, sim::CollectiveImplementation, std::int32_t>;
  std::map<Key, std::map<std::int64_t, Times>> curves;
  CollectiveImport result;
  std::set<std::string> versions;
  while (table.Next()) {
    EndIfStopped(control);
    const Implementation implementation = ImplementationOf(table);
    if (!implementation.captured) continue;
    const auto ranks = static_cast<std::int32_t>(table.Integer("num_gpus", 2, kCollectiveRanksMax));
    Times& times =
        curves[{KindOf(table), implementation.name, ranks}][table.Integer("bytes", 1, kBytesMax)];
    const double log_us = std::log(table.Positive("latency_us", kCollectiveUsMax));
    times.sum += log_us;
    times.squares += log_us * log_us;
    ++times.count;
    const std::string version = fmt::format("{} {}", table.Text("impl"), table.Text("version"));
    if (versions.insert(version).second) result.versions.push_back(version);
  }
  for (const auto& [key, times] : curves) {
    sim::CollectiveCurve curve = CurveOf(times);
    std::tie(curve.kind, curve.implementation, curve.ranks) = key;
    result.profile.curves.push_back(std::move(curve));
  }
  return result;
}

}  // namespace twin::run
