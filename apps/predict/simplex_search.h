// Minimizes a function of several variables without derivatives.
#pragma once

#include <functional>
#include <vector>

namespace twin::run {

struct SearchRange {
  double low = 0;
  double start = 0;
  double high = 0;
};

// The simplex method of Nelder and Mead (The Computer Journal 7, 1965), within the open ranges:
// each variable is searched as the logit of its place in its range. Deterministic. Ends after
// `evaluations` calls of `function`, or when all corners agree to 1e-6. Returns the best variables.
// REQUIRES: low < start < high.
std::vector<double> SearchMinimum(
    const std::vector<SearchRange>& ranges, int evaluations,
    const std::function<double(const std::vector<double>&)>& function);

}  // namespace twin::run
