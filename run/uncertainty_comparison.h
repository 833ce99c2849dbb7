// Compares simulated experiments under uncertainty: of the random workload and of the cost model's
// errors. Which of two is better, and what should be measured if that is uncertain?
//
// Idea: each draw repeats both experiments with another seed of the workload and other errors of
// the cost model, the same for both (common random numbers: a GPU whose GEMMs are slower than
// predicted slows both). The distribution of the difference between the two over the draws is all
// that is known about it. The errors are independent standard normal variates, so the squared
// correlation of an error with the difference is the share of the difference's variance that the
// error explains: the variance that exact knowledge of the term would remove.
//
// The verdict is about P(better), the probability that the second is better than the first in one
// more draw, and not about means: an experiment that is a little worse in 9 of 10 draws and much
// better in the tenth may have the better mean.
//
// Easy to get wrong: intervals of the two metrics may overlap widely although the sign of their
// difference is certain; only the difference decides. Draws of the two belong together only with
// equal seeds, so that both take the first one's. A trace is the same in all draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "core/statistics.h"
#include "run/run_control.h"

namespace twin::run {

// Median of the draws, and the interval that holds one more draw with 90 %.
struct DrawnInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};

// A probability that draws estimate, with its 95 % interval.
struct DrawnProbability {
  double share = 0.5;  // of the draws; ties count half
  double low = 0;
  double high = 1;

  // Whether it is shown to be above a half.
  [[nodiscard]] bool is_likely() const { return low > 0.5; }
  [[nodiscard]] DrawnProbability opposite() const { return {1 - share, 1 - high, 1 - low}; }
};

// The interval of Clopper and Pearson (Biometrika 26, 1934), which holds the probability in at
// least 95 % of all cases. REQUIRES: 0 <= successes <= draws, draws >= 1.
DrawnProbability ProbabilityOf(double successes, int draws);

// Share of the variance that an uncertain term explains.
struct VarianceShare {
  std::string term;  // drawn_errors.h
  double share = 0;
};

struct DrawnMetric {
  std::string name;  // as in summary.json
  bool higher_is_better = false;
  std::vector<DrawnInterval> values;  // by experiment
  // With two experiments: second - first, and whether the second is better in a draw.
  DrawnInterval difference;
  DrawnProbability second_is_better;
  // Causes of the variance of the difference, or of a single experiment's value; the largest first.
  // Leaves out terms below 5 %, and terms that so few draws cannot tell from chance.
  std::vector<VarianceShare> causes;
};

struct UncertaintyComparison {
  int draws = 0;
  std::uint64_t first_seed = 0;   // of both experiments; each draw takes the next one
  bool has_model_errors = false;  // false: no cost model knows its errors; only seeds are drawn
  std::vector<DrawnMetric> metrics;
};

constexpr int kDrawsMin = kValuesOfPrediction;

// Draws one experiment or two, in simulated worlds, with the seeds of the first one from its own
// on, on DefaultJobs() threads; the result does not depend on their number. `control` may end it
// early: the result then has fewer draws. Leaves out metrics that are undefined in some draw.
// REQUIRES: draws >= kDrawsMin. Throws as Simulate; InputError (usage) if a world is real, a seed
// would exceed 2^64 - 1, or fewer than kDrawsMin draws were made.
UncertaintyComparison CompareDraws(const std::vector<ExperimentConfig>& asked, int draws,
                                   RunControl& control);

}  // namespace twin::run
