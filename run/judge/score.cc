#include "run/judge/score.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr std::size_t kFirstLook = 10;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::size_t PairedScore::pairs() const {
  std::size_t pairs = 0;
  for (const auto& cell : differences_) pairs += cell.size();
  return pairs;
}

double PairedScore::MeanOf(std::size_t cell) const { return twin::Mean(differences_[cell]); }

double PairedScore::Variance() const {
  double squares = 0;
  double degrees = 0;
  for (const std::vector<double>& values : differences_) {
    if (values.size() < 2) continue;
    const double own_degrees = static_cast<double>(values.size()) - 1;
    squares += own_degrees * SampleVariance(values);
    degrees += own_degrees;
  }
  return degrees > 0 ? squares / degrees : kNan;
}

Interval PairedScore::Mean(double level) const {
  Interval interval{.n = pairs()};
  double variance = 0;
  std::size_t cells = 0;
  for (std::size_t cell = 0; cell < differences_.size(); ++cell) {
    if (differences_[cell].empty()) continue;
    ++cells;
    interval.value += MeanOf(cell);
    variance += Variance() / static_cast<double>(differences_[cell].size());
  }
  const auto count = static_cast<double>(cells);
  interval.value /= count;
  const double degrees = static_cast<double>(interval.n) - count;
  const double half =
      degrees > 0 ? StudentQuantile(degrees, 0.5 + level / 2) * std::sqrt(variance) / count : kNan;
  interval.low = interval.value - half;
  interval.high = interval.value + half;
  return interval;
}

Sign PairedScore::Decide(double alpha) const {
  const std::size_t count = pairs();
  const double variance = Variance();
  if (count < kFirstLook || std::isnan(variance)) return Sign::kUndecided;
  double sum = 0;
  for (const auto& cell : differences_) sum += std::accumulate(cell.begin(), cell.end(), 0.0);
  return SequentialSign(sum, count, variance, alpha);
}

double ErrorOfSubmission(double error, std::uint64_t number, std::size_t references) {
  const auto k = static_cast<double>(number);
  return error / (k * (k + 1)) / static_cast<double>(references);
}

}  // namespace twin::run
