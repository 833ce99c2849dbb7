// Meaning of every key of summary.json: the one place that knows names, units and formulas.
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
// tokens, t_i = time of output token i, w = time for which its client held it back before a.
const std::vector<Metric>& MetricCatalog();

// The key of a metric: replaces tbt (time between tokens), the name of other programs for itl
// (p99_tbt_ms becomes p99_itl_ms). Any other name stays as it is.
std::string MetricKey(std::string_view name);

// The entry of a key; for tenant_N_KEY and group_N_KEY the entry of KEY. nullopt for names that no
// run writes.
std::optional<Metric> FindMetric(std::string_view name);

// Whether a key also appears as tenant_N_KEY if metrics.by_tenant is set.
bool IsByTenant(std::string_view name);
// Whether a key also appears as group_N_KEY if the system has replica_groups: the keys of
// IsByTenant, and keys on the work of the group's replicas.
bool IsByGroup(std::string_view name);

// Keys that `run` and `compare` print unless told otherwise.
std::span<const std::string_view> HeadlineMetrics();

// Which values of a metric serve users or operators better; nullopt where that depends on the
// question (batch sizes, cache use) or is unknown.
std::optional<bool> HigherIsBetter(std::string_view name);

// The distributions of latencies: each has a key for each statistic, STATISTIC_LATENCY_ms.
struct LatencyQuantity {
  std::string_view name;
  std::string_view what;
  std::string_view formula;
};
std::span<const LatencyQuantity> LatencyQuantities();
// Latencies of runs with a boundary, or with clients that wait for a limit of their own.
std::span<const LatencyQuantity> FurtherLatencies();

struct Statistic {
  std::string_view name;
  std::string_view what;
  // Largest share of clients without an answer at which a bound on the statistic can hold. A p99
  // promises an answer to 99 % of the clients; a mean is treated like a p99.
  double unanswered_max;
};
std::span<const Statistic> Statistics();

// The share of clients without an answer that a bound from above on a latency tolerates.
struct UnansweredLimit {
  std::string share;  // the key of the share without an answer, for all, a tenant, or a group
  double max = 0;     // Statistic::unanswered_max
};
// The limit for a latency; nothing for other metrics.
std::optional<UnansweredLimit> FindUnansweredLimit(std::string_view name);

}  // namespace twin
