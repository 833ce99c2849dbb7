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

// P(|T| > |t|).
double TwoSidedTail(double t, double degrees) {
  const boost::math::students_t_distribution<double, Doubles> student(degrees);
  return 2 * boost::math::cdf(boost::math::complement(student, std::abs(t)));
}

// Willink's a.
double Asymmetry(double skewness, double n) { return skewness / (6 * std::sqrt(n)); }
constexpr double kSmallAsymmetry = 1e-6;  // where the formulas lose their digits

// The mean of values whose distribution may be skewed: Student's statistic
// T = (mean - mu) / (s / sqrt(n)) and Willink's W = a + ((1 + 2 a T)^3 - 1) / (6 a), with
// a = skewness / (6 sqrt(n)), are both compared with Student's t.
class SkewedMean {
 public:
  // REQUIRES: at least two values.
  explicit SkewedMean(std::span<const double> values)
      : n_(values.size()),
        mean_(Mean(values)),
        error_(std::sqrt(SampleVariance(values) / Count())) {
    if (n_ < 3 || error_ == 0) return;
    double cubes = 0;
    for (const double value : values) cubes += std::pow(value - mean_, 3);
    const double third_moment = Count() / ((Count() - 1) * (Count() - 2)) * cubes;
    skewness_ = third_moment / std::pow(error_ * std::sqrt(Count()), 3);
  }

  [[nodiscard]] Interval IntervalAt(double level) const {
    const double t = StudentQuantile(Count() - 1, 0.5 + level / 2);
    return {mean_, mean_ - error_ * std::max(t, SkewedQuantile(t, skewness_, Count())),
            mean_ + error_ * std::max(t, -SkewedQuantile(-t, skewness_, Count())), n_};
  }

  // The p-value of the mean 0.
  [[nodiscard]] double PValue() const {
    if (error_ == 0) return mean_ == 0 ? 1 : 0;
    const double t = mean_ / error_;
    if (!std::isfinite(t)) return kNone;  // of values that are no numbers
    const double a = Asymmetry(skewness_, Count());
    const double corrected =
        std::abs(a) < kSmallAsymmetry ? t : a + (std::pow(1 + 2 * a * t, 3) - 1) / (6 * a);
    if (corrected * t <= 0) return 1;
    return std::max(TwoSidedTail(t, Count() - 1), TwoSidedTail(corrected, Count() - 1));
  }

 private:
  [[nodiscard]] double Count() const { return static_cast<double>(n_); }

  std::size_t n_;
  double mean_;
  double error_;  // standard error
  double skewness_ = 0;
};

// REQUIRES: at least two values, none negative.
double LowerEndOfGeometricMean(std::span<const double> values, double level) {
  std::vector<double> logarithms;
  for (const double value : values) {
    if (value <= 0) return 0;
    logarithms.push_back(std::log(value));
  }
  const auto n = static_cast<double>(values.size());
  const double error = std::sqrt(SampleVariance(logarithms) / n);
  return std::exp(Mean(logarithms) - StudentQuantile(n - 1, 0.5 + level / 2) * error);
}

// REQUIRES: at least two values from 0 to 1.
Interval ProportionInterval(std::span<const double> values, double level) {
  constexpr double kPiecesOfARun = 5;
  const auto n = static_cast<double>(values.size());
  const double share = Mean(values);
  const auto [least, most] = std::ranges::minmax(values);
  const double bound = std::pow(1 - level, 1 / (kPiecesOfARun * n));
  if (least == 1) return {1, bound, 1, values.size()};
  if (most == 0) return {0, 0, 1 - bound, values.size()};
  const double variance = SampleVariance(values) / n;
  Interval interval = SkewedMean(values).IntervalAt(level);
  if (variance > 0) {
    const double requests = share * (1 - share) / variance;
    const double t = StudentQuantile(n - 1, 0.5 + level / 2);
    const double scale = 1 + t * t / requests;
    const double middle = (share + t * t / (2 * requests)) / scale;
    const double half =
        t * std::sqrt(share * (1 - share) / requests + t * t / (4 * requests * requests)) / scale;
    interval.low = std::min(interval.low, middle - half);
    interval.high = std::max(interval.high, middle + half);
  }
  interval.low = std::max(interval.low, 0.0);
  interval.high = std::min(interval.high, 1.0);
  return interval;
}

// The next ratio below (`low`) or above the ratio of means at which the interval of a - ratio b
// excludes 0. NaN if there is none above; 0 if there is none below, since no mean is negative.
// Whether 1 is excluded is asked itself: with few skewed values, ratios beyond may hold again.
// REQUIRES: both means are positive.
double EndOfRatio(std::span<const double> a, std::span<const double> b, double level, bool low) {
  constexpr double kPrecision = 1e-9;
  const double ratio = Mean(a) / Mean(b);
  std::vector<double> rest(a.size());
  const auto excludes = [&](double tried) {
    for (std::size_t i = 0; i < a.size(); ++i) rest[i] = a[i] - tried * b[i];
    const Interval interval = MeanInterval(rest, level);
    return low ? interval.low > 0 : interval.high < 0;
  };
  std::vector<double> distances{low ? ratio - 1 : 1 - ratio, low ? ratio : 0};
  for (double part = 1e-6; part < 1e6; part *= 2) distances.push_back(part * ratio);
  std::ranges::sort(distances);
  double inside = ratio;
  for (const double distance : distances) {
    const double tried = low ? ratio - distance : ratio + distance;
    if (distance <= 0 || tried < 0) continue;
    if (!excludes(tried)) {
      inside = tried;
      continue;
    }
    double outside = tried;
    while (std::abs(outside - inside) > kPrecision * ratio) {
      const double middle = (inside + outside) / 2;
      (excludes(middle) ? outside : inside) = middle;
    }
    return outside;
  }
  return low ? 0 : kNone;
}

// The ratio of PairedComparison.
Interval RatioOfMeans(std::span<const double> a, std::span<const double> b, double level) {
  const bool negative = std::ranges::min(a) < 0 || std::ranges::min(b) < 0;
  if (negative || std::ranges::max(b) <= 0) return {kNone, kNone, kNone, a.size()};
  Interval ratio{Mean(a) / Mean(b), kNone, kNone, a.size()};
  if (!std::isfinite(ratio.value)) return {kNone, kNone, kNone, a.size()};
  if (ratio.value == 0) return {0, 0, 0, a.size()};  // all are 0
  if (a.size() < 2) return ratio;
  ratio.low = EndOfRatio(a, b, level, true);
  ratio.high = EndOfRatio(a, b, level, false);
  return ratio;
}

}  // namespace

double StudentQuantile(double degrees, double p) {
  CHECK(degrees > 0 && p > 0 && p < 1);
  return boost::math::quantile(boost::math::students_t_distribution<double, Doubles>(degrees), p);
}

double SkewedQuantile(double t, double skewness, double n) {
  const double a = Asymmetry(skewness, n);
  if (std::abs(a) < kSmallAsymmetry) return t;
  return (std::cbrt(1 + 6 * a * (t - a)) - 1) / (2 * a);
}

Interval MeanInterval(std::span<const double> values, double level, ValueRange range) {
  CHECK(!values.empty());
  if (values.size() < 2) return {Mean(values), kNone, kNone, values.size()};
  if (range == ValueRange::kProportion) return ProportionInterval(values, level);
  Interval interval = SkewedMean(values).IntervalAt(level);
  if (range == ValueRange::kNonNegative && interval.low <= 0) {
    interval.low = LowerEndOfGeometricMean(values, level);
  }
  return interval;
}

double MeanPValue(std::span<const double> values) {
  return values.size() < 2 ? kNone : SkewedMean(values).PValue();
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.begin(), p_values.end());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
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
  result.p_value = MeanPValue(differences);
  result.ratio = RatioOfMeans(a, b, level);
  result.geometric_ratio = {kNone, kNone, kNone, logarithms.size()};
  if (logarithms.size() == a.size()) {
    const Interval mean = MeanInterval(logarithms, level);
    result.geometric_ratio = {std::exp(mean.value), std::exp(mean.low), std::exp(mean.high),
                              mean.n};
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
