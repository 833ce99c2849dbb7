// The order of the columns of a study's tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/study_config.h"

namespace twin::run {

// Sorts keys of summaries: keys of the metric catalogue in its order, then keys of tenants by
// tenant, then all remaining ones by name.
void SortMetricColumns(std::vector<std::string>& names);

// Metrics that rows of a study have in addition to the keys of summary.json (study_runner.h).
std::span<const std::string_view> StudyMetrics();

// Whether a name is a key of a summary or one of StudyMetrics().
bool IsRowMetric(std::string_view name);

// The keys of metrics that a person asks for, with other programs' names replaced (MetricKey).
// Throws InputError (usage) if one is no number of any row of the study; errors name `field`.
std::vector<std::string> KnownMetrics(const StudyConfig& study, std::span<const std::string> asked,
                                      const std::string& field);

// The text of a number; empty if it is not finite.
std::string NumberCell(double value);

// Whether the values of a key are texts, such as digest.
bool IsTextMetric(std::string_view name);

}  // namespace twin::run
