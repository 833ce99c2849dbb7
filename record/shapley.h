// Shares of causes in an effect that they bring about together.
#pragma once

#include <span>
#include <vector>

namespace twin {

// `values[s]`: the effect if exactly the causes whose bits are set in s are present, for all
// 2^n subsets of n causes. The share of a cause is what it adds when it comes, averaged over all
// orders of coming; the shares sum to values.back() - values.front().
// REQUIRES: values.size() is a power of two, at most 2^16. Cost: n 2^n.
// Source: Shapley, "A value for n-person games", 1953.
std::vector<double> ShapleyShares(std::span<const double> values);

}  // namespace twin
