// Statistics of independent values, such as those of replications: intervals and comparisons. Pure
// functions. batch_means.h has those of one long run.
//
// All intervals are two-sided with the confidence `level`, such as 0.95. Where an interval cannot
// be computed (too few values), its ends are NaN.
#pragma once

#include <cstddef>
#include <span>

namespace twin::run {

struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
  std::size_t n = 0;  // independent values that it rests on
};

// The p-quantile of Student's t with `degrees` of freedom. REQUIRES: degrees > 0, 0 < p < 1.
double StudentQuantile(double degrees, double p);

// Mean of independent values, such as one per replication: mean +- t_{n-1} s / sqrt(n) (Law,
// Simulation Modeling and Analysis, chapter 9). REQUIRES: at least one value.
Interval MeanInterval(std::span<const double> values, double level);

// a - b with common random numbers: the k-th values belong together.
struct PairedComparison {
  Interval difference;
  // exp of the mean of ln(a/b), and of its interval; NaN unless all values are positive.
  Interval ratio;
  // Correlation of a and b; pairing helps if it is positive. NaN if one of them does not vary.
  double correlation = 0;
};
// REQUIRES: equal sizes, at least one.
PairedComparison ComparePaired(std::span<const double> a, std::span<const double> b, double level);

// Whether the mean of paired or single values differs from zero, valid at every n >= 10 when looked
// at again and again: sum^2 > V (n + q) ln((n + q) / (q a^2)) with q = 10 and V the sample variance
// (normal mixture: Robbins 1970; Howard et al., Annals of Statistics 2021). 4.1 % false decisions
// at a = 0.05 for normal values.
enum class Sign { kUndecided, kNegative, kPositive };
Sign SequentialSign(std::span<const double> values, double alpha);
// As above, for `count` values of cells that are looked at equally often, with the variance within
// cells. REQUIRES: count >= 10.
Sign SequentialSign(double sum, std::size_t count, double variance, double alpha);

}  // namespace twin::run
