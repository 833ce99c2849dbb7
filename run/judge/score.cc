#include "run/judge/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr std::size_t kFirstLook = 10;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Cells of a stratum that have pairs.
struct DrawnStratum {
  double cells = 0;           // of the stratum, drawn or not
  std::vector<double> means;  // of the drawn ones

  [[nodiscard]] double drawn() const { return static_cast<double>(means.size()); }
};

using Strata = std::map<std::size_t, DrawnStratum>;

// A sum of independent estimates of variances. With degrees nu_i, E s^4 = sigma^4 (1 + 2 / nu_i):
// the sum's degrees are (sum s_i^2)^2 / sum(s_i^4 / (nu_i + 2)) - 2, at least 1 (Satterthwaite,
// Biometrics Bulletin 2(6), 1946, without the bias of his s_i^4); those of a single one are its
// own.
class VarianceSum {
 public:
  void Add(double variance, double degrees) {
    variance_ += variance;
    squares_ += variance * variance / (degrees + 2);
  }
  [[nodiscard]] double variance() const { return variance_; }
  [[nodiscard]] double degrees() const {
    return squares_ > 0 ? std::max(1.0, variance_ * variance_ / squares_ - 2) : 1;
  }

 private:
  double variance_ = 0;
  double squares_ = 0;
};

// Adds the share of the variance of the sum of the strata's means that comes from cells that were
// not drawn.
void AddBetweenCells(const Strata& strata, VarianceSum& sum) {
  std::vector<double> single_means;  // of strata of which one cell of several was drawn
  double single_share = 0;
  for (const auto& [index, stratum] : strata) {
    const double drawn = stratum.drawn();
    if (drawn >= stratum.cells) continue;
    const double left_out = (1 - drawn / stratum.cells) / drawn;
    if (drawn > 1) {
      sum.Add(left_out * SampleVariance(stratum.means), drawn - 1);
    } else {
      single_means.push_back(stratum.means.front());
      single_share += left_out;
    }
  }
  if (single_means.empty()) return;
  sum.Add(single_share * SampleVariance(single_means),
          static_cast<double>(single_means.size()) - 1);
}

}  // namespace

std::size_t PairedScore::pairs() const {
  std::size_t pairs = 0;
  for (const auto& cell : differences_) pairs += cell.size();
  return pairs;
}

double PairedScore::MeanOf(std::size_t cell) const { return twin::Mean(differences_[cell]); }

PairedScore::Component PairedScore::WithinAll() const {
  double squares = 0;
  double degrees = 0;
  for (const std::vector<double>& values : differences_) {
    if (values.size() < 2) continue;
    const double own_degrees = static_cast<double>(values.size()) - 1;
    squares += own_degrees * SampleVariance(values);
    degrees += own_degrees;
  }
  return {degrees > 0 ? squares / degrees : kNan, degrees};
}

PairedScore::Component PairedScore::WithinCell(std::size_t cell) const {
  const std::vector<double>& values = differences_[cell];
  const auto count = static_cast<double>(values.size());
  if (values.size() >= 2) return {SampleVariance(values) / count, count - 1};
  const Component all = WithinAll();
  return {all.variance / count, all.degrees};
}

PairedScore::Estimate PairedScore::Estimated() const {
  Strata strata;
  for (std::size_t cell = 0; cell < differences_.size(); ++cell) {
    if (differences_[cell].empty()) continue;
    DrawnStratum& stratum = strata[origins_[cell].stratum];
    stratum.means.push_back(MeanOf(cell));
    stratum.cells = std::max(static_cast<double>(origins_[cell].cells), stratum.drawn());
  }
  // The variance of the sum over strata; the mean's is smaller by the square of their number.
  VarianceSum sum;
  AddBetweenCells(strata, sum);
  for (std::size_t cell = 0; cell < differences_.size(); ++cell) {
    if (differences_[cell].empty()) continue;
    const DrawnStratum& stratum = strata[origins_[cell].stratum];
    const Component within = WithinCell(cell);
    sum.Add(within.variance / (stratum.drawn() * stratum.cells), within.degrees);
  }
  std::vector<double> means;
  for (const auto& [index, stratum] : strata) means.push_back(twin::Mean(stratum.means));
  const auto squared = static_cast<double>(strata.size() * strata.size());
  return {twin::Mean(means), sum.variance() / squared, sum.degrees()};
}

Interval PairedScore::Mean(double level) const {
  const Estimate estimate = Estimated();
  if (std::isnan(estimate.variance)) return {estimate.mean, kNan, kNan, pairs()};
  const double half =
      StudentQuantile(estimate.degrees, 0.5 + level / 2) * std::sqrt(estimate.variance);
  return {estimate.mean, estimate.mean - half, estimate.mean + half, pairs()};
}

Sign PairedScore::Decide(double alpha) const {
  const Estimate estimate = Estimated();
  if (pairs() < kFirstLook || std::isnan(estimate.variance)) return Sign::kUndecided;
  // As many values with this mean.
  const auto count = static_cast<double>(pairs());
  return SequentialSign(estimate.mean * count, pairs(), estimate.variance * count, alpha);
}

double ErrorOfSubmission(double error, std::uint64_t number, std::size_t references) {
  const auto k = static_cast<double>(number);
  return error / (k * (k + 1)) / static_cast<double>(references);
}

}  // namespace twin::run
