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
// Easy to get wrong: intervals of the two metrics may overlap widely although the sign of their
// difference is certain; only the difference decides. A trace is the same in all draws.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/run_control.h"

namespace twin::run {

// Median, 5th and 95th percentile over the draws.
struct DrawnInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};

// Share of the variance that an uncertain term explains.
struct VarianceShare {
  std::string term;  // drawn_errors.h
  double share = 0;
};

struct DrawnMetric {
  std::string name;  // as in summary.json
  bool higher_is_better = false;
  std::vector<DrawnInterval> values;  // by experiment
  // With two experiments: second - first, and the share of draws in which the second is better
  // (ties count half).
  DrawnInterval difference;
  double second_is_better = 0;
  // Causes of the variance of the difference, or of a single experiment's value; the largest first.
  // Leaves out terms below 5 %, and terms that so few draws cannot tell from chance.
  std::vector<VarianceShare> causes;
};

struct UncertaintyComparison {
  int draws = 0;
  bool has_model_errors = false;  // false: no cost model knows its errors; only seeds are drawn
  std::vector<DrawnMetric> metrics;
};

// Share of draws from which on a result counts as decided.
constexpr double kDecided = 0.95;

constexpr int kDrawsMin = 10;

// Draws one experiment or two, in simulated worlds, on DefaultJobs() threads; the result does not
// depend on their number. `control` may end it early: the result then has fewer
// draws. Leaves out metrics that are undefined in some draw. REQUIRES: draws >= kDrawsMin. Throws
// as Simulate; InputError (usage) if a world is real, or fewer than kDrawsMin draws were made.
UncertaintyComparison CompareDraws(const std::vector<ExperimentConfig>& asked, int draws,
                                   RunControl& control);

}  // namespace twin::run
