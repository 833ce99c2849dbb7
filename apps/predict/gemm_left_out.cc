#include "apps/predict/gemm_left_out.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "core/check.h"
#include "core/statistics.h"
#include "run/run_control.h"
#include "sim/devices/operations/gemm_kriging.h"
#include "sim/devices/operations/gemm_table.h"

namespace twin::run {
namespace {

constexpr double kDeviationsAtP90 = 1.645;
// Number of steps between 0 and 1 in which shares are tried.
constexpr int kShareSteps = 50;
constexpr double kLeastGain = 0.01;

double SumOfSizes(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum;
}

std::vector<double> AtShare(const std::vector<double>& none, const std::vector<double>& whole,
                            double share) {
  std::vector<double> errors;
  errors.reserve(none.size());
  for (std::size_t i = 0; i < none.size(); ++i) {
    errors.push_back(std::lerp(none[i], whole[i], share));
  }
  return errors;
}

// Errors of each m but the first and last of one (n, k).
void JudgeTokens(const sim::GemmTable& table, const std::vector<double>& own,
                 const sim::GemmTokenWeights* tokens, const std::vector<double>& trend,
                 GemmJudged& judged) {
  const std::vector<double> rest =
      tokens == nullptr ? own : WithoutTrend(table, own, *tokens, trend);
  const sim::GemmTokenWeights axis(table.m);
  for (std::size_t at = 1; at + 1 < own.size(); ++at) {
    const sim::GemmRatio ratio = axis.RatioWithout(rest, table.m[at]);
    const double left_out = ratio.log_ratio + own[at] - rest[at];
    judged.Add(table.m[at], left_out - own[at], ratio.variance);
  }
}

}  // namespace

ImportError ImportErrorOf(const std::vector<double>& logs) {
  std::vector<double> sizes;
  for (const double log : logs) sizes.push_back(std::abs(std::expm1(log)));
  return {.rows = static_cast<std::int64_t>(logs.size()),
          .median = QuantileOrZero(sizes, 0.5),
          .p90 = QuantileOrZero(sizes, 0.9),
          .bias = std::expm1(QuantileOrZero(logs, 0.5))};
}

void GemmJudged::Add(std::int64_t m, double log, double variance) {
  logs.push_back(log);
  if (variance > 0) {
    in_deviations[sim::GemmRangeOf(m)].push_back(std::abs(log) / std::sqrt(variance));
  }
}

std::vector<double> GemmJudged::Deviations() const {
  std::vector<double> all;
  for (const std::vector<double>& range : in_deviations) {
    // Rounds to three digits, as in files.
    all.push_back(std::round(1e3 * QuantileOrZero(range, 0.9) / kDeviationsAtP90) / 1e3);
  }
  return all;
}

GemmLeftOut JudgeLeftOut(const sim::GemmTable& table, const RunControl& control,
                         const GemmOthers& others) {
  GemmLeftOut errors;
  const sim::GemmKriging kriging(table, others.pool);
  std::optional<sim::GemmKriging> of_trend;
  std::unique_ptr<const sim::GemmTokenWeights> tokens;
  if (others.trend != nullptr) {
    of_trend.emplace(*others.trend, others.pool);
    tokens = std::make_unique<sim::GemmTokenWeights>(others.trend->m);
  }
  for (std::size_t i = 0; i < table.n.size(); ++i) {
    for (std::size_t j = 0; j < table.k.size(); ++j) {
      if (table.curves[i * table.k.size() + j].empty()) continue;
      EndIfStopped(control);
      const std::vector<double> own = sim::DecodeGemmCurve(table.curves[i * table.k.size() + j]);
      const sim::GemmCurveRatios left_out = kriging.CurveAt(table.n[i], table.k[j], true);
      for (std::size_t at = 0; at < own.size(); ++at) {
        errors.shapes.Add(table.m[at], left_out.log_ratios[at] - own[at], left_out.variance);
      }
      std::vector<double> trend;
      if (of_trend) trend = of_trend->CurveAt(table.n[i], table.k[j]).log_ratios;
      JudgeTokens(table, own, tokens.get(), trend, errors.tokens);
    }
  }
  return errors;
}

bool IsGain(const std::vector<double>& without, const std::vector<double>& with) {
  return SumOfSizes(with) <= (1 - kLeastGain) * SumOfSizes(without);
}

double BestShare(const std::vector<double>& none, const std::vector<double>& whole) {
  CHECK(none.size() == whole.size() && !none.empty());
  double best = 0;
  double least = SumOfSizes(none);
  for (int step = 1; step <= kShareSteps; ++step) {
    const double share = double{1} * step / kShareSteps;
    const double sum = SumOfSizes(AtShare(none, whole, share));
    if (sum >= least) continue;
    least = sum;
    best = share;
  }
  return IsGain(none, AtShare(none, whole, best)) ? best : 0;
}

}  // namespace twin::run
