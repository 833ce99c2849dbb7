// How many runs an interval of a metric's mean wants.
//
// Requests wait little in most runs, and long in few of them. Five or ten runs may hold none of the
// few; they then look steady, and whatever interval is computed from them lies below the truth. No
// method mends that, because what matters is not among the values: at seven tenths of the capacity,
// 95 % intervals of five runs cover the mean TTFT in 68 to 84 % of studies, whichever method makes
// them. So times that requests wait, and latencies that consist mostly of waiting, get an interval
// from 20 runs on. There are two exceptions.
//
// Places: ten runs do where requests wait for no place. The most requests that ran at a time are
// not the same number in most runs, as they are where a limit stops them, and in most runs the KV
// cache was never full. (The spread of the waiting times themselves is no sign: of the studies in
// which it happens to be small, up to three quarters miss the truth.)
//
// Cliffs: quantiles want 100 runs if the next higher quantile varies by more than 0.3 (standard
// deviation of the logarithm) and 2.5 times as much as they do, because they can then still jump.
//
// A share of the requests wants 20 runs if some runs miss, but not more than half of them.
//
// checks/statistics measures what the rules do, and docs/studies.md shows its table.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "run/many/output_statistics.h"

namespace twin::run {

// The values of a metric in the runs of a point; empty if they have none. Values without a number
// are left out.
using RunValues = std::function<std::span<const double>(const std::string& metric)>;

// The range of a key of summary.json.
ValueRange RangeOf(std::string_view metric);

// 0 if there are enough. `metric`: a key of summary.json, also of a tenant or a group; other names,
// such as derived columns, want no more than two.
std::size_t RunsWanted(const std::string& metric, const RunValues& values);

}  // namespace twin::run
