#include "run/many/output_statistics.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <boost/math/distributions/students_t.hpp>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Without long double, whose tables Boost fills at start-up and valgrind cannot compute.
using Doubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;

}  // namespace

double StudentQuantile(double degrees, double p) {
  CHECK(degrees > 0 && p > 0 && p < 1);
  return boost::math::quantile(boost::math::students_t_distribution<double, Doubles>(degrees), p);
}

Interval MeanInterval(std::span<const double> values, double level) {
  CHECK(!values.empty());
  const double mean = Mean(values);
  const auto n = static_cast<double>(values.size());
  if (values.size() < 2) return {mean, kNone, kNone, values.size()};
  const double half =
      StudentQuantile(n - 1, 0.5 + level / 2) * std::sqrt(SampleVariance(values) / n);
  return {mean, mean - half, mean + half, values.size()};
}

PairedComparison ComparePaired(std::span<const double> a, std::span<const double> b, double level) {
  CHECK(a.size() == b.size() && !a.empty());
  std::vector<double> differences;
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences.push_back(a[i] - b[i]);
    if (a[i] > 0 && b[i] > 0) logarithms.push_back(std::log(a[i] / b[i]));
  }
  PairedComparison result;
  result.difference = MeanInterval(differences, level);
  result.ratio = {kNone, kNone, kNone, logarithms.size()};
  if (logarithms.size() == a.size()) {
    const Interval mean = MeanInterval(logarithms, level);
    result.ratio = {std::exp(mean.value), std::exp(mean.low), std::exp(mean.high), mean.n};
  }
  const double product = SampleVariance(a) * SampleVariance(b);
  const double covariance =
      (SampleVariance(a) + SampleVariance(b) - SampleVariance(differences)) / 2;
  result.correlation = product > 0 ? covariance / std::sqrt(product) : kNone;
  return result;
}

Sign SequentialSign(std::span<const double> values, double alpha) {
  constexpr std::size_t kFirstLook = 10;
  if (values.size() < kFirstLook) return Sign::kUndecided;
  return SequentialSign(std::accumulate(values.begin(), values.end(), 0.0), values.size(),
                        SampleVariance(values), alpha);
}

Sign SequentialSign(double sum, std::size_t count, double variance, double alpha) {
  constexpr double kMixture = 10;
  const auto n = static_cast<double>(count);
  const double boundary =
      variance * (n + kMixture) * std::log((n + kMixture) / (kMixture * alpha * alpha));
  if (sum * sum <= boundary || sum == 0) return Sign::kUndecided;
  return sum > 0 ? Sign::kPositive : Sign::kNegative;
}

}  // namespace twin::run
