// Shapley values: how much each of several causes contributes to a joint effect.
//
// The idea: replacing measured by modelled durations changes a metric, and the change caused by one
// part depends on which other parts are replaced already: a slow GEMM matters less once the host is
// the bottleneck. Replacing the parts one after the other gives shares that depend on the order.
// The Shapley value averages over all orders. It is the only division that is symmetric, gives
// nothing to a cause without influence, is linear in the effect, and sums to the whole effect
// (Shapley, "A value for n-person games", 1953).
//
// Easy to get wrong: the weights belong to subsets, not to orders, s! (n - 1 - s)! / n! for a
// subset of s other causes, so 2^n evaluations suffice instead of n!; a share may be negative,
// where a part's error hides another's; shares of a nonlinear metric, such as a p99, are as
// meaningful as the metric, but not additive over requests.
#pragma once

#include <span>
#include <vector>

namespace twin {

// `values[s]` is the effect if exactly the causes whose bits are set in s are present, for all 2^n
// subsets of n causes. Returns n shares, by cause; they sum to values.back() - values.front().
// REQUIRES: values.size() is a power of two, at most 2^16. Cost: n 2^n.
std::vector<double> ShapleyShares(std::span<const double> values);

}  // namespace twin
