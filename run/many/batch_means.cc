#include "run/many/batch_means.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr double kTooFew = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kBatchOfMser = 5;
constexpr std::size_t kBatchesOfMserMin = 10;
constexpr std::size_t kBatches = 16;
constexpr double kCorrelationMax = 0.9;

std::vector<double> BatchMeansOf(std::span<const double> series, std::size_t size,
                                 std::size_t count) {
  std::vector<double> means;
  for (std::size_t i = 0; i < count; ++i) means.push_back(Mean(series.subspan(i * size, size)));
  return means;
}

}  // namespace

MserPoint Mser5(std::span<const double> series) {
  const std::vector<double> batches =
      BatchMeansOf(series, kBatchOfMser, series.size() / kBatchOfMser);
  const std::size_t k = batches.size();
  if (k < kBatchesOfMserMin) return {0, true};
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

Interval MeanByBatches(std::span<const double> series, double level) {
  if (series.size() < kBatches) return {kTooFew, kTooFew, kTooFew, 0};
  const std::vector<double> means = BatchMeansOf(series, series.size() / kBatches, kBatches);
  constexpr double kCount = kBatches;
  const double mean = Mean(means);
  double products = 0;
  double squares = 0;
  double cubes = 0;
  for (std::size_t i = 0; i < kBatches; ++i) {
    const double deviation = means[i] - mean;
    if (i > 0) products += deviation * (means[i - 1] - mean);
    squares += deviation * deviation;
    cubes += deviation * deviation * deviation;
  }
  if (squares == 0) return {mean, mean, mean, kBatches};
  const double correlation = std::clamp(products / squares, 0.0, kCorrelationMax);
  const double variance = squares / (kCount - 1);
  const double error = std::sqrt(variance / kCount * (1 + correlation) / (1 - correlation));
  const double skewness =
      kCount * cubes / ((kCount - 1) * (kCount - 2)) / (variance * std::sqrt(variance));
  const double t = StudentQuantile(kCount - 1, 0.5 + level / 2);
  return {mean, mean - SkewedQuantile(t, skewness, kCount) * error,
          mean - SkewedQuantile(-t, skewness, kCount) * error, kBatches};
}

}  // namespace twin::run
