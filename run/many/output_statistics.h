// Statistics of independent values, such as those of replications: intervals and comparisons. Pure
// functions. batch_means.h has those of one long run.
//
// All intervals are two-sided with the confidence `level`, such as 0.95. Where an interval cannot
// be computed (too few values), its ends are NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace twin::run {

struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
  std::size_t n = 0;  // independent values that it rests on
};

// The p-quantile of Student's t with `degrees` of freedom. REQUIRES: degrees > 0, 0 < p < 1.
double StudentQuantile(double degrees, double p);

// The quantile `t` of Student's distribution, corrected for the mean of `n` values of this skewness
// (Willink, Communications in Statistics - Theory and Methods 34, 2005): an interval ends at the
// mean minus this many standard errors, for t and for -t.
double SkewedQuantile(double t, double skewness, double n);

// The range of a metric's values, which the interval of their mean does not leave.
enum class ValueRange : std::uint8_t {
  kAny,
  kNonNegative,
  kProportion,  // of the requests of a run: from 0 to 1
};

// Mean of independent values, such as one per replication: from the lower to the higher end of
// Student's t interval (Law, Simulation Modeling and Analysis, chapter 9) and, from three values
// on, of the one that corrects it for skewness (Willink, Communications in Statistics 34(2), 2005).
// Near saturation, where means of few runs have a skewness of 2 to 4, t alone covers 83 to 92 %,
// and the two together 90 to 96 % (checks/statistics).
//
// kNonNegative: a lower end at or below 0 becomes 0, or that of the geometric mean if all values
// are positive. kProportion: Wilson's score interval, with Student's t and as many requests as
// would have the runs' variance if they were independent (design effect), joined with the one
// above. If no run missed, or none had any, nothing is known of the variance: each run then counts
// as five independent pieces, and the other end is the share p with p^(5 n) = 1 - level ("rule of
// three": Hanley and Lippman-Hand, JAMA 249(13), 1983). REQUIRES: at least one value, all of them
// in the range.
Interval MeanInterval(std::span<const double> values, double level,
                      ValueRange range = ValueRange::kAny);

// The smallest error 1 - level at which MeanInterval(values, level) excludes 0; NaN below two
// values.
double MeanPValue(std::span<const double> values);

// By Holm (Scandinavian Journal of Statistics 6(2), 1979): with the adjusted values, the chance of
// any false decision is at most the level of each. NaN values do not count, and stay.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// a - b with common random numbers: the k-th values belong together.
struct PairedComparison {
  Interval difference;
  double p_value = 0;  // of no difference: MeanPValue()
  // The mean of a divided by that of b, and the ratios r around it for which the interval of a - r
  // b holds 0 (as Fieller, Journal of the Royal Statistical Society B 16(2), 1954): they exclude 1
  // if and only if `difference` excludes 0. NaN unless all values are at least 0 and some b is
  // positive; the upper end is NaN if there is none.
  Interval ratio;
  // The geometric mean of the pairs' ratios: exp of the mean of ln(a/b), and of its interval. Where
  // ratios of small values count most, it may point the other way. NaN unless all are positive.
  Interval geometric_ratio;
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
// As above, from the sum of `count` values and their variance. REQUIRES: count >= 10.
Sign SequentialSign(double sum, std::size_t count, double variance, double alpha);

}  // namespace twin::run
