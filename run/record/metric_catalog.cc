#include "run/record/metric_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "run/record/energy_meter.h"
#include "run/record/fairness_meter.h"
#include "run/record/metrics_collector.h"
#include "run/record/overload_meter.h"
#include "run/record/plan_digest.h"
#include "run/record/replica_meter.h"
#include "run/record/request_metrics.h"
#include "run/record/run_measurements.h"
#include "run/record/slot_meter.h"
#include "run/record/transfer_meter.h"

namespace twin {
namespace {

constexpr std::string_view kTenant = "tenant_";
constexpr std::string_view kGroup = "group_";
constexpr std::string_view kOthers = "others_";

// In the order of a run's summary. All meters are empty.
std::vector<Metric> MakeCatalog() {
  std::vector<Metric> all;
  const MetricWriter out(all);
  MetricsCollector({}).Summarise(out);
  OverloadMeter().Summarise(out);
  SlotMeter({}).Summarise(out);
  SummariseDevices(out, 1, 0, 0);
  EnergyMeter({}, Duration{1}, 2).Summarise(out);
  FairnessMeter({}).Summarise(out);
  ReplicaMeter(1).Summarise(out);
  TransferMeter(0).Summarise(out);
  PlanDigest().Summarise(out);
  SummariseBlocks(out, 0);
  SummariseParts(out, {}, 1);
  SummariseLateness(out, 0, Sketch());
  SummariseRefusals(out, 0);
  SummariseProbes(out, 1, 0, 0);
  SummariseMachine(out, 0, 0, 0, false);
  SummariseEnd(out, false, 0, 0);
  return all;
}

// The metric of exactly this key, or nullptr.
const Metric* Find(std::string_view key) {
  static const auto positions = [] {
    std::map<std::string_view, std::size_t> map;
    for (std::size_t i = 0; i < MetricCatalog().size(); ++i) map[MetricCatalog()[i].name] = i;
    return map;
  }();
  const auto found = positions.find(key);
  return found == positions.end() ? nullptr : &MetricCatalog()[found->second];
}

bool Has(std::string_view key, MetricTrait trait) {
  const Metric* const metric = Find(key);
  return metric != nullptr && (metric->traits & trait) != 0;
}

}  // namespace

const std::vector<Metric>& MetricCatalog() {
  static const std::vector<Metric> catalog = MakeCatalog();
  return catalog;
}

std::string MetricKey(std::string_view name) {
  constexpr std::string_view kOther = "_tbt_";
  const std::size_t at = name.find(kOther);
  if (at == std::string_view::npos) return std::string(name);
  std::string key(name);
  key.replace(at, kOther.size(), "_itl_");
  return FindMetric(key) ? key : std::string(name);
}

std::string_view WithoutPrefix(std::string_view name) {
  for (const std::string_view prefix : {kTenant, kGroup}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    if (rest.starts_with(kOthers)) return rest.substr(kOthers.size());
    const std::size_t digits = rest.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || rest[digits] != '_') return name;
    return rest.substr(digits + 1);
  }
  return name;
}

std::optional<double> UnansweredMax(std::string_view name) {
  const std::string_view key = WithoutPrefix(name);
  if (!Has(key, kLatency)) return std::nullopt;
  return std::ranges::find(Statistics(), key.substr(0, key.find('_')), &Statistic::name)
      ->unanswered_max;
}

const Metric* FindMetric(std::string_view name) {
  const std::string_view key = WithoutPrefix(name);
  const MetricTrait trait = name.starts_with(kGroup) ? kByGroup : kByTenant;
  return key == name || Has(key, trait) ? Find(key) : nullptr;
}

const std::vector<std::string>& HeadlineMetrics() {
  static const std::vector<std::string> keys = {
      "completed",         "rejected",
      "cancelled",         "unanswered_share",
      "mean_ttft_ms",      "p50_ttft_ms",
      "p99_ttft_ms",       "mean_tpot_ms",
      "p99_tpot_ms",       "mean_itl_ms",
      "p99_itl_ms",        "mean_e2el_ms",
      "p99_e2el_ms",       "request_throughput",
      "request_goodput",   "output_throughput",
      "completed_rate",    "good_rate",
      "output_token_rate", "mean_kv_used_share",
      "max_kv_used_share", "prefix_hit_share",
      "preemptions",       "swaps",
      "mean_batch_tokens", "steps",
      "run_seconds",       "digest",
  };
  return keys;
}

std::optional<bool> HigherIsBetter(std::string_view name) {
  if (Has(name, kHigherIsBetter)) return true;
  return Has(name, kLowerIsBetter) ? std::optional<bool>(false) : std::nullopt;
}

std::string MetricTables() {
  std::string plain = "| key | unit | meaning | formula |\n|---|---|---|---|\n";
  for (const Metric& metric : MetricCatalog()) {
    if ((metric.traits & kLatency) != 0 && metric.unit == "ms") continue;  // below
    const std::string formula = metric.formula.empty() ? "" : fmt::format("`{}`", metric.formula);
    plain += fmt::format("| `{}` | {} | {} | {} |\n", metric.name,
                         metric.unit.empty() ? "-" : metric.unit, metric.what, formula);
  }
  std::string latencies = "| keys | unit | meaning | formula of one value |\n|---|---|---|---|\n";
  for (const RequestMetrics::LatencyRow& latency : RequestMetrics::Latencies()) {
    std::string keys;
    for (const Statistic& statistic : Statistics()) {
      keys += fmt::format("{}`{}`", keys.empty() ? "" : ", ", LatencyKey(statistic, latency));
    }
    latencies += fmt::format("| {} | ms | {} | `{}` |\n", keys, latency.what, latency.formula);
  }
  return fmt::format(
      "<!-- Begin of the output of `twinserve doctor --list metrics`. Do not edit. -->\n\n"
      "{}\nLatencies: each has a key for each statistic.\n\n{}\n"
      "<!-- End of the output. -->\n",
      plain, latencies);
}

}  // namespace twin
