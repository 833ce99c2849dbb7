// The keys of summary.json: the metrics of all meters together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/record/metric_writer.h"

namespace twin {

// All keys of a run's summary, each once, in the order of summary.json. Keys of single tenants
// (tenant_N_KEY and tenant_others_KEY) and of groups of replicas (group_N_KEY) are left out: they
// repeat the metrics with kByTenant and kByGroup.
//
// Symbols of formulas, for one request: a = arrival, s = first scheduled, f = first token,
// c = last token, both at the client, r, f', c' = the same moments at the engine, n = output
// tokens, t_i = time of output token i, w = time for which its client held it back before a.
const std::vector<Metric>& MetricCatalog();

// The key of a metric: replaces tbt (time between tokens), the name of other programs for itl
// (p99_tbt_ms becomes p99_itl_ms). Any other name stays as it is.
std::string MetricKey(std::string_view name);

// KEY of tenant_N_KEY, tenant_others_KEY and group_N_KEY; any other name as it is.
std::string_view WithoutPrefix(std::string_view name);

// The entry of a key; for tenant_N_KEY and group_N_KEY the entry of KEY. nullptr for names that no
// run writes.
const Metric* FindMetric(std::string_view name);

// Keys that `run` and `compare` print unless told otherwise.
const std::vector<std::string>& HeadlineMetrics();

// Which values of a metric serve users or operators better; nullopt where that depends on the
// question (batch sizes, cache use) or is unknown.
std::optional<bool> HigherIsBetter(std::string_view name);

// Largest share of clients without an answer at which a bound from above on a latency can hold
// (Statistic::unanswered_max); nothing for other metrics.
std::optional<double> UnansweredMax(std::string_view name);

// The tables of docs/metrics.md that say what the keys of summary.json mean, in Markdown, between
// two marks.
std::string MetricTables();

}  // namespace twin
