// Robust statistics of repeated measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twin::exec {

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  std::int64_t count = 0;

  [[nodiscard]] double relative() const { return median > 0 ? (p90 - p10) / median : 0; }
};

// REQUIRES: values is not empty.
Spread SpreadOf(const std::vector<double>& values);

// Weights of a mean over the middle 80 % of the values by size, in the order of `values`; they sum
// to 1. REQUIRES: values is not empty.
std::vector<double> MiddleWeights(const std::vector<double>& values);

// The mean with the weights of MiddleWeights(). REQUIRES: as many weights as values.
double WeightedMean(const std::vector<double>& values, const std::vector<double>& weights);

// When repeating may end: after `count_min` values if the median is known to about `relative_error`
// (half the interquartile range over the root of the count), after `count_max` values, or when
// `seconds_max` have been spent, but never before one value.
struct RepeatRule {
  std::int64_t count_min = 5;
  std::int64_t count_max = 50;
  double seconds_max = 10;
  double relative_error = 0.01;
};

// True if `values`, which took `spent_s` to measure, are enough.
bool IsEnough(const RepeatRule& rule, const std::vector<double>& values, double spent_s);

// Calls `measure`, which returns seconds, until the rule is satisfied.
template <class Measure>
std::vector<double> Repeat(const RepeatRule& rule, const Measure& measure) {
  std::vector<double> values;
  double spent_s = 0;
  do {
    values.push_back(measure());
    spent_s += values.back();
  } while (!IsEnough(rule, values, spent_s));
  return values;
}

}  // namespace twin::exec
