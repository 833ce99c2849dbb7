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

}  // namespace twin::run
