// Curves of latencies for figures.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/page/figure.h"

namespace twin::run {

// The largest finite value; 0 if there is none.
double LastFinite(const std::vector<double>& values);

// The index of the part in which a time lies, of `windows` equal parts of 0 to `end`. REQUIRES: 0
// <= time <= end.
std::size_t WindowOf(double time, double end, std::size_t windows);

// The curve of a distribution: values that are positive, ascending, against their share.
FigureLine Distribution(const std::string& name, const std::vector<double>& values);

// The median of the values of the requests that arrived in each 60th of the run, NaN if none has a
// value. REQUIRES: one arrival per value, from 0 on.
FigureLine MedianOverTime(const std::string& name, const std::vector<double>& arrivals,
                          const std::vector<double>& values);

}  // namespace twin::run
