// Simulated experiments under everything that is uncertain: the workload's chance and the errors of
// the cost model. Which of two is better, and what should be measured if that cannot be said?
//
// Idea: each draw repeats both experiments with another seed of the workload and other errors of
// the cost model, the same for both (common random numbers: a GPU whose GEMMs are slower than
// predicted slows both). What the difference between the two does over the draws is what is known
// about it. The errors are independent standard normal variates, so the squared correlation of an
// error with the difference is the share of the difference's variance that the error explains:
// knowing the term exactly would remove so much.
//
// Easy to get wrong: intervals of the two metrics may overlap widely although the sign of their
// difference is certain; only the difference decides. A trace has no chance of its own.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/run_control.h"

namespace twin::run {

// Over the draws: median, and 5th and 95th percentile.
struct DrawnInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};

// How much of the variance an uncertain term explains.
struct VarianceShare {
  std::string term;  // drawn_errors.h
  double share = 0;
};

struct DrawnMetric {
  std::string name;  // as in summary.json
  bool higher_is_better = false;
  std::vector<DrawnInterval> values;  // by experiment
  // Of two experiments: second - first, and the share of draws in which the second is better (ties
  // count half).
  DrawnInterval difference;
  double second_is_better = 0;
  // Of the difference, or of a single experiment's value; the largest first. Terms below 5 %, and
  // those that so few draws cannot tell from chance, are left out.
  std::vector<VarianceShare> causes;
};

struct DrawnComparison {
  int draws = 0;
  bool has_model_errors = false;  // false: no cost model knows its errors; chance alone is drawn
  std::vector<DrawnMetric> metrics;
};

// A result counts as decided from this share of draws on.
constexpr double kDecided = 0.95;

constexpr int kDrawsMin = 10;

// Of one experiment or two, in simulated worlds. `control` may end it early: the result then has
// fewer draws. Metrics that a draw leaves undefined are left out. REQUIRES: draws >= kDrawsMin.
// Throws as Simulate; InputError (usage) if a world is real, or fewer than kDrawsMin draws were
// made.
DrawnComparison CompareDraws(const std::vector<ExperimentConfig>& asked, int draws,
                             RunControl& control);

}  // namespace twin::run
