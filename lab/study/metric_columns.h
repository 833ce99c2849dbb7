// The order of the columns of a study's tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin::lab {

// Sorts keys of summaries: those of the metric catalogue in its order, then those of tenants by
// tenant, then all others by name.
void SortMetricColumns(std::vector<std::string>& names);

// Whether the values of a key are texts, such as digest.
bool IsTextMetric(std::string_view name);

}  // namespace twin::lab
