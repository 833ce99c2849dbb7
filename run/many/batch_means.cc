#include "run/many/batch_means.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/distributions/normal.hpp>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kBatchOfMser = 5;
constexpr std::size_t kBatchesMax = 30;
constexpr std::size_t kBatchesMin = 10;  // also of MSER-5

std::vector<double> BatchMeansOf(std::span<const double> series, std::size_t size) {
  std::vector<double> means;
  for (std::size_t i = 0; i + size <= series.size(); i += size)
    means.push_back(Mean(series.subspan(i, size)));
  return means;
}

// Without long double, whose tables Boost fills at start-up and valgrind cannot compute.
using Doubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;

double NormalQuantile(double p) {
  return boost::math::quantile(boost::math::normal_distribution<double, Doubles>(), p);
}

}  // namespace

MserPoint Mser5(std::span<const double> series) {
  const std::vector<double> batches = BatchMeansOf(series, kBatchOfMser);
  const std::size_t k = batches.size();
  if (k < kBatchesMin) return {0, true};
  // From the end: sums over batches d+1..k about their mean, by Welford's update.
  double mean = 0;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity();  // in the first half
  double least_later = least;
  std::size_t at = 0;
  for (std::size_t d = k; d-- > 0;) {
    const auto count = static_cast<double>(k - d);
    const double offset = batches[d] - mean;
    mean += offset / count;
    squares += offset * (batches[d] - mean);
    // Few batches look steady by chance.
    if (k - d < std::max(kBatchOfMser, k / 5) && d > k / 2) continue;
    const double mser = squares / (count * count);
    if (d > k / 2) {
      least_later = std::min(least_later, mser);
    } else if (mser <= least) {
      least = mser;
      at = d;
    }
  }
  return {kBatchOfMser * at, least_later < least / 2};
}

std::vector<double> AveragedSeries(std::span<const std::vector<double>> replications) {
  std::vector<double> averaged;
  if (replications.empty()) return averaged;
  std::size_t length = replications.front().size();
  for (const std::vector<double>& series : replications) length = std::min(length, series.size());
  for (std::size_t i = 0; i < length; ++i) {
    double sum = 0;
    int count = 0;
    for (const std::vector<double>& series : replications) {
      if (std::isnan(series[i])) continue;
      sum += series[i];
      ++count;
    }
    if (count > 0) averaged.push_back(sum / count);
  }
  return averaged;
}

double VonNeumannRatio(std::span<const double> values) {
  CHECK(values.size() >= 2);
  const double mean = Mean(values);
  double differences = 0;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) differences += (values[i] - values[i - 1]) * (values[i] - values[i - 1]);
  }
  return differences / squares;
}

BatchMeans MeanByBatches(std::span<const double> series, double level) {
  BatchMeans result{{kNone, kNone, kNone, 0}, 0, false};
  if (series.size() < kBatchesMin) return result;
  std::size_t size = (series.size() + kBatchesMax - 1) / kBatchesMax;
  for (;; size *= 2) {
    const std::vector<double> means = BatchMeansOf(series, size);
    const auto m = static_cast<double>(means.size());
    const double deviation = std::sqrt(4 * (m - 2) / (m * m - 1));
    const double ratio = VonNeumannRatio(means);
    // Values that do not vary are as independent as can be.
    const bool independent = std::isnan(ratio) || ratio >= 2 - NormalQuantile(0.95) * deviation;
    result = {MeanInterval(means, level), size, independent};
    if (independent || series.size() / (2 * size) < kBatchesMin) return result;
  }
}

}  // namespace twin::run
