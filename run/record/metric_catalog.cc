#include "run/record/metric_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>

#include "core/step_parts.h"

namespace twin {
namespace {

constexpr std::array kLatencies = {
    LatencyQuantity{"ttft", "time to first token of a completed request", "f - a"},
    LatencyQuantity{"tpot", "time per output token after the first; requests with n >= 2",
                    "(c - f) / (n - 1)"},
    LatencyQuantity{"itl",
                    "inter-token latency, also called time between tokens (tbt); pooled over all "
                    "tokens of all requests",
                    "t_i - t_(i-1), i >= 2"},
    LatencyQuantity{"e2el", "end-to-end latency of a completed request", "c - a"},
    LatencyQuantity{"queue", "queueing delay of a completed request", "s - a"},
    LatencyQuantity{"longest_itl", "longest ITL of a request with n >= 2", "max_i (t_i - t_(i-1))"},
};

// Latencies of systems with a boundary between clients and engine, and of clients that wait for a
// limit of their own.
constexpr std::array kFurtherLatencies = {
    LatencyQuantity{"engine_ttft", "time to first token at the engine; with system.boundary only",
                    "f' - r"},
    LatencyQuantity{"engine_e2el", "end-to-end latency at the engine; with system.boundary only",
                    "c' - r"},
    LatencyQuantity{"request_delay", "from the client to the engine; with system.boundary only",
                    "r - a"},
    LatencyQuantity{"response_delay", "from the engine to the client; with system.boundary only",
                    "f - f'"},
    LatencyQuantity{"client_queue_time",
                    "time for which a client held a request back before it sent it, at a; with "
                    "workload.max_in_flight only",
                    "w"},
    LatencyQuantity{"e2el_including_client_queue",
                    "end-to-end latency from when the client wanted to send; with "
                    "workload.max_in_flight only",
                    "w + c - a"},
};

constexpr std::string_view kTenant = "tenant_";
constexpr std::string_view kGroup = "group_";

constexpr std::array kStatistics = {
    Statistic{"mean", "arithmetic mean", 0.01},
    Statistic{"median", "the same as p50", 0.5},
    Statistic{"std", "standard deviation of the population", 0.01},
    Statistic{"min", "minimum", 0.01},
    Statistic{"p50", "quantile 0.5", 0.5},
    Statistic{"p90", "quantile 0.9", 0.1},
    Statistic{"p95", "quantile 0.95", 0.05},
    Statistic{"p99", "quantile 0.99", 0.01},
    Statistic{"max", "maximum", 0},
};

constexpr std::string_view kHeadline[] = {
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

// Plain keys, in the order of summary.json; latencies stand between the two lists.
const std::vector<Metric>& RequestCounts() {
  static const std::vector<Metric> metrics = {
      {"requests", "requests", "requests that left", "completed + rejected + cancelled"},
      {"completed", "requests", "requests that got their whole output", ""},
      {"rejected", "requests", "requests that the engine refused", ""},
      {"rejected_too_long_for_model", "requests",
       "rejected because they exceed the model's or the policy's length limit", ""},
      {"rejected_too_large_for_cache", "requests",
       "rejected because not even an empty KV cache could hold them", ""},
      {"rejected_overloaded", "requests",
       "rejected because the policy's limit of requests in the system was reached", ""},
      {"cancelled", "requests", "requests whose client went away", ""},
      {"unfinished", "requests", "requests that arrived and had not left when the run ended", ""},
      {"unanswered_share", "share",
       "share of the requests that got no answer: rejected, cancelled or unfinished; latencies are "
       "those of the others",
       "(rejected + cancelled + unfinished) / (requests + unfinished)"},
      {"cut_outputs", "requests",
       "completed requests whose output ended below its limit because the context was full", ""},
      {"duration_seconds", "s",
       "from the first arrival of a counted request until the last of them has left, answered or "
       "not",
       "last end - first a"},
      {"total_input_tokens", "tokens", "prompt tokens of the completed requests", ""},
      {"total_output_tokens", "tokens", "output tokens of the completed requests", "sum of n"},
      {"request_throughput", "requests/s",
       "requests completed per second of duration_seconds, those that head_share and tail_share "
       "leave out too",
       "completions in that time / duration_seconds"},
      {"output_throughput", "tokens/s", "output tokens of these completions per second",
       "their n / duration_seconds"},
      {"total_token_throughput", "tokens/s",
       "prompt and output tokens of these completions per second",
       "their (prompt tokens + n) / duration_seconds"},
      {"request_goodput", "requests/s",
       "those of these completions that keep every bound of `slo`, per second; with `slo` only",
       "good / duration_seconds"},
      {"slo_attainment", "share",
       "share of requests that keep every bound of `slo` (inclusive); rejected and cancelled "
       "requests keep none; with `slo` only",
       "good / requests"},
      {"prefix_hit_share", "share",
       "share of the completed requests' prompt tokens that came from the prefix cache at their "
       "first admission",
       "cached tokens / total_input_tokens"},
  };
  return metrics;
}

const std::vector<Metric>& NormalizedLatencies() {
  static const std::vector<Metric> metrics = {
      {"mean_normalized_ms_per_token", "ms/token", "normalized latency, mean over requests",
       "(c - a) / n"},
      {"p50_normalized_ms_per_token", "ms/token", "normalized latency, quantile 0.5",
       "(c - a) / n"},
      {"p99_normalized_ms_per_token", "ms/token", "normalized latency, quantile 0.99",
       "(c - a) / n"},
      {"burst_share_of_ttft_tail", "share",
       "share of the requests that arrived together at first, as users of a closed loop do, among "
       "those with a TTFT of p99_ttft_ms or more; undefined without others",
       ""},
  };
  return metrics;
}

const std::vector<Metric>& Work() {
  static const std::vector<Metric> metrics = {
      {"stalls", "tokens", "ITLs longer than metrics.stall_threshold_s",
       "count of itl > threshold"},
      {"steps", "steps", "steps that ended, those without work too", ""},
      {"preemptions", "preemptions", "requests that lost their memory while running",
       "recomputes + swaps"},
      {"recomputes", "preemptions", "preemptions that dropped the KV cache of the request", ""},
      {"swaps", "preemptions", "preemptions that moved the KV cache to the host", ""},
      {"computed_prefill_tokens", "tokens", "tokens of prefill items, recomputed ones too", ""},
      {"computed_decode_tokens", "tokens", "tokens of decode items, drafts included", ""},
      {"recomputed_tokens", "tokens", "tokens computed again after a preemption", ""},
      {"preemption_overhead", "share", "share of the computed tokens that were recomputed",
       "recomputed_tokens / (computed_prefill_tokens + computed_decode_tokens)"},
      {"padding_share", "share", "share of the charged tokens that are padding",
       "padding / (computed_prefill_tokens + computed_decode_tokens + padding)"},
      {"mean_batch_tokens", "tokens", "charged tokens per step, padding included",
       "(computed_prefill_tokens + computed_decode_tokens + padding) / steps"},
      {"mean_batch_sequences", "requests", "work items per step", "work items / steps"},
      {"spec_decode_num_drafts", "items", "work items that verified drafts; with drafts only", ""},
      {"spec_decode_draft_tokens", "tokens", "drafts that were verified; with drafts only", ""},
      {"spec_decode_accepted_tokens", "tokens",
       "drafts that were accepted, also behind the end of an output; with drafts only", ""},
      {"spec_decode_acceptance_rate", "share",
       "share of the drafts that were accepted; with drafts only",
       "spec_decode_accepted_tokens / spec_decode_draft_tokens"},
      {"spec_decode_acceptance_length", "tokens",
       "tokens per work item that verified drafts; with drafts only",
       "1 + spec_decode_accepted_tokens / spec_decode_num_drafts"},
  };
  return metrics;
}

// Metrics of time and memory.
const std::vector<Metric>& Use() {
  static const std::vector<Metric> metrics = {
      {"run_seconds", "s", "the run's clock at its last event; 0 is the start of the run", ""},
      {"simulated_seconds", "s",
       "the same as run_seconds, in a real run too: the name that older scripts read", ""},
      {"busy_share", "share",
       "share of the time in which at least one step was on the device; mean over replicas",
       "union of the steps' times / time"},
      {"mean_kv_used_share", "share", "KV blocks held or reserved, mean over time",
       "time average of used blocks / kv_blocks"},
      {"max_kv_used_share", "share", "KV blocks held or reserved, maximum",
       "max used blocks / kv_blocks"},
      {"mean_running", "requests", "running requests, mean over time", ""},
      {"max_running", "requests", "running requests, maximum", ""},
      {"mean_waiting", "requests", "waiting requests, mean over time", ""},
      {"max_waiting", "requests", "waiting requests, maximum", ""},
      {"mean_swapped", "requests", "requests swapped out to the host, mean over time", ""},
      {"offered_rate", "requests/s", "arrivals per second between the first and the last",
       "(arrivals - 1) / (last a - first a)"},
      {"completed_rate", "requests/s",
       "requests completed per second of the loaded time, without filling and drain",
       "share of each service in that time, summed / that time"},
      {"output_token_rate", "tokens/s", "output tokens of the completed requests, likewise",
       "the same of n"},
      {"total_token_rate", "tokens/s",
       "prompt and output tokens of the completed requests, likewise",
       "the same of prompt tokens + n"},
      {"good_rate", "requests/s",
       "completed requests that keep every bound of `slo`, likewise; with `slo` only", ""},
      {"saturated", "",
       "whether more arrived than the system can serve, so that latencies grow with the length of "
       "the run or clients are turned away or leave while they wait: yes, no or undecided",
       ""},
      {"pipeline_slots_used_share", "share",
       "steps in flight, as a share of those that the running requests could be in, one each; "
       "with several pipeline stages only",
       "time integral of min(steps with work in flight, m) / that of m, m = min(running, stages)"},
  };
  return metrics;
}

// Energy, power and cost of the devices.
const std::vector<Metric>& EnergyMetrics() {
  static const std::vector<Metric> metrics = {
      {"energy_joules", "J",
       "energy of all devices from the first arrival to the end of the run, without host, fans and "
       "network; energy and power only if the data sheets know them",
       "idle, base and work of core/energy_spec.h"},
      {"mean_power_w", "W", "mean power of all devices", "energy_joules / time"},
      {"max_power_w", "W",
       "largest mean power in windows of metrics.series_interval_s, which double in long runs", ""},
      {"provisioned_power_w", "W", "sum of the devices' limits", ""},
      {"energy_per_output_token_j", "J", "energy for an output token of a completed request",
       "energy_joules / output tokens"},
      {"energy_per_request_j", "J", "energy for a completed request", "energy_joules / completed"},
      {"idle_energy_share", "share",
       "share of the energy in which no step was in flight; only if the data sheets know idle "
       "power, which otherwise counts as their base power",
       ""},
      {"power_limited_share", "share", "share of the devices' busy time at their power limit", ""},
      {"device_hours", "h", "time of all devices; only if the data sheets know energy or price",
       "devices * time / 3600"},
      {"cost_usd", "$", "price of that time; only if the data sheets have a price",
       "sum of device_hours * price.usd_per_hour"},
      {"cost_per_million_output_tokens_usd", "$", "the same for 1e6 output tokens", ""},
  };
  return metrics;
}

// Metrics of devices, tenants and replicas, and the last keys of a summary.
const std::vector<Metric>& SystemMetrics() {
  static const std::vector<Metric> metrics = {
      {"devices", "devices", "devices of all replicas, groups and pools", ""},
      {"request_throughput_per_device", "requests/s", "request_throughput of one device",
       "request_throughput / devices"},
      {"output_throughput_per_device", "tokens/s", "output_throughput of one device",
       "output_throughput / devices"},
      {"device_hours_per_million_output_tokens", "h",
       "time of devices that a million output tokens take",
       "1e6 / (3600 * output_throughput_per_device)"},
      {"tenants", "tenants", "tenants that sent requests; with metrics.by_tenant only", ""},
      {"tenants_compared", "tenants",
       "tenants that max_service_difference covers: the first 32 to arrive; with "
       "metrics.by_tenant only",
       ""},
      {"max_service_difference", "tokens",
       "largest difference in service between two tenants over any span in which both had "
       "requests waiting; with metrics.by_tenant only",
       "service = prompt tokens + 2 * output tokens"},
      {"replicas", "replicas", "replicas behind the router; with system.replicas > 1 only", ""},
      {"requests_imbalance", "-",
       "how unevenly requests were placed; with system.replicas > 1 only",
       "most requests of a replica / mean over the replicas"},
      {"tokens_imbalance", "-", "how unevenly work was placed; with system.replicas > 1 only",
       "most charged tokens of a replica / mean over the replicas"},
      {"min_busy_share", "share",
       "busy_share of the replica that was least busy; with system.replicas > 1 only", ""},
      {"max_busy_share", "share",
       "busy_share of the replica that was most busy; with system.replicas > 1 only", ""},
      {"kv_transfers", "transfers",
       "copies of keys and values from the replica that prefilled a request to the one that "
       "decodes it; with system.disaggregation only",
       ""},
      {"kv_transfer_bytes", "bytes", "bytes copied in all; with system.disaggregation only",
       "copied tokens * KV bytes per token"},
      {"mean_kv_transfer_wait_ms", "ms",
       "mean time from the first token to the first byte sent: for blocks at the target and for "
       "the network; with system.disaggregation only",
       ""},
      {"max_kv_transfer_wait_ms", "ms", "maximum of the same", ""},
      {"mean_kv_transfer_ms", "ms",
       "mean time from the first byte sent to the end of the transfer; with "
       "system.disaggregation only",
       ""},
      {"max_kv_transfer_ms", "ms", "maximum of the same", ""},
      {"digest", "", "64-bit hash of all plans: equal digests mean equal decisions", ""},
      {"kv_blocks", "blocks",
       "usable KV blocks of a replica; with system.replica_groups of one of the first group", ""},
      {"interrupted", "0 or 1", "1: the run was stopped early", ""},
      {"cpu_seconds", "s", "CPU time of the process, user and system", ""},
      {"peak_rss_mib", "MiB", "largest resident memory of the process", ""},
  };
  return metrics;
}

// Adds the metrics of real, emulated and served runs, which stand before `interrupted`.
void AddRealRunMetrics(std::vector<Metric>& metrics) {
  constexpr std::array<std::string_view, kMeasuredPartCount> kWhat = {
      "from planning, or the end of the step before, to the device's begin",
      "block operations and the step's inputs",
      "matrix products",
      "attention over the KV cache",
      "collectives and sends between ranks",
      "all other operations on the device",
      "drawing tokens from logits",
      "from the end of the step to the engine"};
  for (std::size_t i = 0; i < kMeasuredPartCount; ++i) {
    metrics.push_back({fmt::format("mean_step_{}_ms", kStepPartNames[i]), "ms",
                       fmt::format("mean time per step: {}; real runs only", kWhat[i]),
                       fmt::format("sum of parts.csv {}_ms / steps", kStepPartNames[i])});
  }
  metrics.push_back(
      {"late_steps", "steps", "told later than one step after their time; emulated runs only", ""});
  for (const char* const which : {"median", "p99", "max"}) {
    metrics.push_back({fmt::format("{}_lateness_us", which), "us",
                       "from when a step's results were due until they were told, on the wall "
                       "clock; emulated runs only",
                       ""});
  }
  metrics.push_back(
      {"refused", "requests", "requests that a full queue did not accept; served runs only", ""});
  metrics.push_back(
      {"machine_probes", "-", "timings of fixed work during the run; real runs only", ""});
  metrics.push_back({"machine_decode_probe_us", "us",
                     "mean time of fixed work like that of a decode step; real runs only", ""});
  metrics.push_back({"machine_prefill_probe_us", "us",
                     "mean time of fixed work like that of a prefill; real runs only", ""});
  metrics.push_back({"machine_steal_share", "share",
                     "share of the CPU time of all CPUs that was stolen; real runs only", ""});
  metrics.push_back({"machine_other_load", "CPUs",
                     "CPUs kept busy by other processes, mean over the run; real runs only", ""});
  metrics.push_back({"machine_other_load_max", "CPUs",
                     "the same in the busiest interval between two samples; real runs only", ""});
  metrics.push_back(
      {"machine_disturbed", "0 or 1", "1: the machine was disturbed; real runs only",
       "machine_steal_share > 0.01 or machine_other_load > 0.05 * CPUs of the machine"});
}

std::string LatencyKey(const LatencyQuantity& latency, const Statistic& statistic) {
  return fmt::format("{}_{}_ms", statistic.name, latency.name);
}

void AddLatency(const LatencyQuantity& latency, std::vector<Metric>& metrics) {
  for (const Statistic& statistic : kStatistics) {
    metrics.push_back({LatencyKey(latency, statistic), "ms",
                       fmt::format("{}: {}", latency.what, statistic.what),
                       std::string(latency.formula)});
  }
}

std::vector<Metric> MakeCatalog() {
  std::vector<Metric> all = {
      {"latencies_at", "",
       "client: latencies include the way to the engine and back; with system.boundary only", ""}};
  all.insert(all.end(), RequestCounts().begin(), RequestCounts().end());
  for (const auto latencies : {LatencyQuantities(), FurtherLatencies()}) {
    for (const LatencyQuantity& latency : latencies) AddLatency(latency, all);
  }
  all.insert(all.end(), NormalizedLatencies().begin(), NormalizedLatencies().end());
  all.insert(all.end(), Work().begin(), Work().end());
  all.insert(all.end(), Use().begin(), Use().end());
  for (const Metric& metric : SystemMetrics()) {
    if (metric.name == "tenants")
      all.insert(all.end(), EnergyMetrics().begin(), EnergyMetrics().end());
    if (metric.name == "interrupted") AddRealRunMetrics(all);
    all.push_back(metric);
  }
  return all;
}

struct LatencyStatistic {
  const LatencyQuantity* latency = nullptr;
  const Statistic* statistic = nullptr;
};

// Latency and statistic of the key STATISTIC_LATENCY_ms; nothing for other keys.
std::optional<LatencyStatistic> FindLatency(std::string_view key) {
  for (const auto latencies : {LatencyQuantities(), FurtherLatencies()}) {
    for (const LatencyQuantity& latency : latencies) {
      for (const Statistic& statistic : kStatistics) {
        if (key == LatencyKey(latency, statistic)) return LatencyStatistic{&latency, &statistic};
      }
    }
  }
  return std::nullopt;
}

// KEY of PREFIX_N_KEY and PREFIX_others_KEY; any other name unchanged.
std::string_view WithoutNumber(std::string_view prefix, std::string_view name) {
  constexpr std::string_view kOthers = "others_";
  if (!name.starts_with(prefix)) return name;
  std::string_view rest = name.substr(prefix.size());
  if (rest.starts_with(kOthers)) return rest.substr(kOthers.size());
  const std::size_t digits = rest.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos || rest[digits] != '_') return name;
  return rest.substr(digits + 1);
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

std::optional<UnansweredLimit> FindUnansweredLimit(std::string_view name) {
  const std::string_view key = WithoutNumber(name.starts_with(kGroup) ? kGroup : kTenant, name);
  const auto limit = [&](const Statistic& statistic) {
    const std::string_view prefix = name.substr(0, name.size() - key.size());
    return UnansweredLimit{fmt::format("{}unanswered_share", prefix), statistic.unanswered_max};
  };
  if (const auto latency = FindLatency(key)) return limit(*latency->statistic);
  for (const Statistic& statistic : kStatistics) {
    if (key == fmt::format("{}_normalized_ms_per_token", statistic.name)) return limit(statistic);
  }
  return std::nullopt;
}

std::optional<Metric> FindMetric(std::string_view name) {
  static const auto positions = [] {
    std::map<std::string_view, std::size_t> map;
    for (std::size_t i = 0; i < MetricCatalog().size(); ++i) map[MetricCatalog()[i].name] = i;
    return map;
  }();
  const bool of_group = name.starts_with(kGroup);
  const std::string_view key = WithoutNumber(of_group ? kGroup : kTenant, name);
  const auto found = positions.find(key);
  if (found == positions.end()) return std::nullopt;
  if (key != name && !(of_group ? IsByGroup(key) : IsByTenant(key))) return std::nullopt;
  Metric metric = MetricCatalog()[found->second];
  metric.name = name;
  return metric;
}

bool IsByTenant(std::string_view name) {
  const auto is = [name](const Metric& metric) { return metric.name == name; };
  if (std::any_of(RequestCounts().begin(), RequestCounts().end(), is)) return true;
  if (std::any_of(NormalizedLatencies().begin(), NormalizedLatencies().end(), is)) return true;
  const std::optional<LatencyStatistic> latency = FindLatency(name);
  return latency && latency->latency->name != "itl";  // gaps are pooled over all tenants
}

bool IsByGroup(std::string_view name) {
  constexpr std::string_view kOfReplicas[] = {
      "replicas",   "kv_blocks",     "steps", "computed_prefill_tokens", "computed_decode_tokens",
      "busy_share", "energy_joules",
  };
  return std::ranges::find(kOfReplicas, name) != std::end(kOfReplicas) || IsByTenant(name);
}

std::span<const std::string_view> HeadlineMetrics() { return kHeadline; }

std::optional<bool> HigherIsBetter(std::string_view name) {
  constexpr std::string_view kHigher[] = {
      "request_throughput", "output_throughput", "total_token_throughput", "request_goodput",
      "completed_rate",     "output_token_rate", "total_token_rate",       "good_rate",
      "slo_attainment",     "prefix_hit_share"};
  if (std::ranges::find(kHigher, name) != std::end(kHigher)) return true;
  const std::optional<LatencyStatistic> latency = FindLatency(name);
  if (latency && latency->statistic->name != "std") return false;
  return std::nullopt;
}

std::span<const LatencyQuantity> LatencyQuantities() { return kLatencies; }

std::span<const LatencyQuantity> FurtherLatencies() { return kFurtherLatencies; }

std::span<const Statistic> Statistics() { return kStatistics; }

}  // namespace twin
