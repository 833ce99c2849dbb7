// Statistics of the dependent values of one run: warm-up, and intervals of means. Pure functions.
//
// All intervals are two-sided with the confidence `level`, such as 0.95. Where an interval cannot
// be computed (too few values), its ends are NaN.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "run/many/output_statistics.h"

namespace twin::run {

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

// The mean of a dependent series from one long run without its warm-up: of its values in 16 batches
// of equal size, which leave out the last values that fill none. Student's t, with two corrections:
//   - of the variance of the mean by (1 + r) / (1 - r), for batch means that follow an
//     autoregression with their correlation r at lag 1, between 0 and 0.9 (Tafazzoli, Wilson, IIE
//     Transactions 43(2), 2011),
//   - of the quantile for the skewness of the batch means (Willink, Communications in Statistics -
//     Theory and Methods 34(4), 2005), which makes the interval longer towards large values where
//     few batches hold most of the queueing.
// It does not know how long the series must be: a queue that was short by chance looks independent.
Interval MeanByBatches(std::span<const double> series, double level);

}  // namespace twin::run
