// Statistics of simulation output: warm-up, intervals for dependent and independent values, and
// comparisons. Pure functions.
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

// What the values of a metric can be, which their mean's interval does not leave.
enum class ValueRange : std::uint8_t {
  kAny,
  kNonNegative,
  kProportion,  // of the requests of a run: from 0 to 1
};

// Mean of independent values, such as one per replication: from the lower to the higher end of
// Student's t interval (Law, Simulation Modeling and Analysis, chapter 9) and, from three values
// on, of the one that corrects it for skewness (Willink, Communications in Statistics 34(2), 2005).
// Of the means of few runs near saturation, whose skewness is 2 to 4, t alone covers 83 to 92 %,
// and the two together 90 to 96 %. checks/statistics measures both.
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

// MSER-5 (White 1997; White, Cobb, Spratt, WSC 2000): the number d of batches of five to drop that
// minimises the sum of squares of the rest about its mean, divided by the square of their number.
// Easy to get wrong: on single runs it cuts early high excursions and biases the mean down; use it
// on series averaged over replications. A minimum in the second half says that the run is too short
// to tell; nothing should then be dropped. Chance can put a minimum there too, so it counts only if
// it is below half of the first half's minimum, and the last fifth (at least four batches) is not
// considered. Fewer than 10 batches are too few to tell.
struct MserPoint {
  std::size_t observations = 0;  // to drop: five times the smallest minimiser in the first half
  bool too_short = false;        // the minimum lies in the second half
};
MserPoint Mser5(std::span<const double> series);

// Element by element over replications; NaN elements do not count, and elements that no replication
// has are left out. The length is that of the shortest replication.
std::vector<double> AveragedSeries(std::span<const std::vector<double>> replications);

// Von Neumann's ratio sum d^2 / sum x^2 of successive differences d and deviations x from the mean.
// For n independent normal values it has the mean 2 and the variance 4 (n - 2) / (n^2 - 1) (Young,
// Annals of Mathematical Statistics 12(3), 1941); positive correlation lowers it. NaN if the values
// do not vary. REQUIRES: at least two values.
double VonNeumannRatio(std::span<const double> values);

// The mean of a dependent series from one long run without its warm-up: its values in at most 30
// and at least 10 batches of equal size, doubled until von Neumann's ratio does not reject
// independent batch means at 5 % (one-sided, normal approximation: mean 2, variance
// 4 (m - 2) / (m^2 - 1)), or 10 batches would not be left. `independent` says whether they passed.
struct BatchMeans {
  Interval mean;
  std::size_t batch_size = 0;
  bool independent = false;
};
BatchMeans MeanByBatches(std::span<const double> series, double level);

// a - b with common random numbers: the k-th values belong together.
struct PairedComparison {
  Interval difference;
  double p_value = 0;  // of no difference: MeanPValue()
  // The mean of a divided by that of b, and the ratios r around it for which the interval of a - r b
  // holds 0 (as Fieller, Journal of the Royal Statistical Society B 16(2), 1954): they exclude 1 if
  // and only if `difference` excludes 0. NaN unless all values are at least 0 and some b is
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
