// What every key of summary.json means: the one place that knows names, units and formulas.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twin {

struct Metric {
  std::string name;     // the key in summary.json
  std::string unit;     // "ms", "requests/s", ...; empty: a text
  std::string what;     // one clause
  std::string formula;  // with the symbols below; empty: `what` says it all
};

// All keys of a run's summary, each once, in the order of summary.json. Keys of single tenants
// (tenant_N_KEY and tenant_others_KEY) and of groups of replicas (group_N_KEY) are left out: they
// repeat the keys of IsByTenant and IsByGroup.
//
// Symbols of formulas, for one request: a = arrival, s = first scheduled, f = first token,
// c = last token, both at the client, r, f', c' = the same moments at the engine, n = output
// tokens, t_i = time of output token i, w = how long its client held it back before a.
const std::vector<Metric>& MetricCatalog();

// A metric by the key it has here: other programs call itl tbt, time between tokens
// (p99_tbt_ms is p99_itl_ms). Any other name stays as it is.
std::string MetricKey(std::string_view name);

// The entry of a key, that of KEY for tenant_N_KEY and group_N_KEY; nullopt for names that no run
// writes.
std::optional<Metric> FindMetric(std::string_view name);

// Whether a key also appears as tenant_N_KEY where metrics.by_tenant is set.
bool IsByTenant(std::string_view name);
// Whether a key also appears as group_N_KEY where the system has replica_groups: those of
// IsByTenant, and what the replicas of a group did.
bool IsByGroup(std::string_view name);

// Keys that `run` and `compare` print unless told otherwise.
std::span<const std::string_view> HeadlineMetrics();

// The distributions of latencies: each has a key for each statistic, STATISTIC_LATENCY_ms.
struct LatencyQuantity {
  std::string_view name;
  std::string_view what;
  std::string_view formula;
};
std::span<const LatencyQuantity> LatencyQuantities();
// Those of runs with a boundary or with clients that wait for a limit of their own.
std::span<const LatencyQuantity> FurtherLatencies();

struct Statistic {
  std::string_view name;
  std::string_view what;
  // A bound on the statistic promises something to the clients: to this share of them at most it
  // may fail to answer. A p99 promises an answer to 99 %; a mean is taken like a p99.
  double unanswered_max;
};
std::span<const Statistic> Statistics();

// The share of clients without an answer that a bound from above on a latency tolerates.
struct UnansweredLimit {
  std::string share;  // the key of the share that got no answer: of all, a tenant, or a group
  double max = 0;     // Statistic::unanswered_max
};
// Nothing for metrics that are no latency.
std::optional<UnansweredLimit> FindUnansweredLimit(std::string_view name);

}  // namespace twin
