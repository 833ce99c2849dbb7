#include "apps/predict/gemm_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "apps/predict/simplex_search.h"
#include "core/statistics.h"
#include "run/run_control.h"
#include "sim/devices/operations/gemm_closed_form.h"
#include "sim/devices/operations/unmeasured_device.h"

namespace twin::run {
namespace {

constexpr std::size_t kFitRows = 900;
constexpr int kEvaluations = 900;
constexpr double kErrorMax = 0.5;
// Weight of the squared logarithms of coefficients over their defaults.
constexpr double kPull = 5e-4;
// Between the median and the 90 % interval of a normal distribution, in standard deviations.
constexpr double kErrorsAtP90 = 1.645;

struct Coefficient {
  double sim::GemmCoefficients::*member;
  double low;
  double high;
};

using C = sim::GemmCoefficients;
constexpr Coefficient kCoefficients[] = {
    {&C::flops_fraction, 0.35, 0.99}, {&C::bandwidth_fraction, 0.4, 1},
    {&C::latency_s, 0.4e-6, 8e-6},    {&C::tile_loss, 0.5, 120},
    {&C::wave_s, 0.01e-6, 4e-6},      {&C::saturating_tiles, 0.05, 1.5},
    {&C::split_s, 0.1e-6, 8e-6},      {&C::l2_bytes_per_s, 20e9, 500e9},
    {&C::overlap, 1.2, 12},           {&C::wave_rounding, 0, 1},
    {&C::weight_copies, 0.9, 12},     {&C::resident_bytes_per_s, 6e9, 100e9}};
constexpr Coefficient kQuantization[] = {{&C::quantize_s, 0, 20e-6}, {&C::quantize_passes, 0, 20}};

// Rounds to 4 digits, as in files.
double Rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

bool IsQuantized(sim::GemmFormat format) {
  return format == sim::GemmFormat::kFp8 || format == sim::GemmFormat::kFp8Block ||
         format == sim::GemmFormat::kFp4;
}

}  // namespace

std::vector<double> GemmFitErrors(const HardwareSpec& hardware, const C& coefficients,
                                  std::span<const GemmRow> rows) {
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const GemmRow& row : rows) {
    const double seconds = sim::GemmClosedForm(
        hardware, coefficients, {.m = row.m, .n = row.n, .k = row.k, .format = row.format});
    errors.push_back(std::log(seconds / row.seconds));
  }
  return errors;
}

sim::GemmFit FitGemm(const HardwareSpec& hardware, std::span<const GemmRow> rows,
                     const RunControl& control, bool fits_rounding) {
  sim::GemmFit fit;
  fit.format = rows.front().format;
  C start;
  std::vector<Coefficient> free(std::begin(kCoefficients), std::end(kCoefficients));
  if (IsQuantized(fit.format)) {
    free.insert(free.end(), std::begin(kQuantization), std::end(kQuantization));
    start.quantize_s = 2.5e-6;
    start.quantize_passes = 1.5;
  }
  if (fits_rounding) {
    free.push_back({&C::row_rounding, 0, 1});
    start.row_rounding = 0.5;
  }
  std::vector<GemmRow> sample;
  const std::size_t count = std::min(kFitRows, rows.size());
  for (std::size_t i = 0; i < count; ++i) sample.push_back(rows[i * rows.size() / count]);
  std::vector<SearchRange> ranges;
  for (const Coefficient& c : free) ranges.push_back({c.low, start.*c.member, c.high});
  const auto coefficients_of = [&](const std::vector<double>& values) {
    C coefficients = start;
    for (std::size_t i = 0; i < free.size(); ++i) coefficients.*free[i].member = values[i];
    return coefficients;
  };
  const auto loss = [&](const std::vector<double>& values) {
    EndIfStopped(control);
    double sum = 0;
    for (const double error : GemmFitErrors(hardware, coefficients_of(values), sample)) {
      sum += std::min(std::abs(error), kErrorMax);
    }
    double pull = 0;
    for (std::size_t i = 0; i < free.size(); ++i) {
      const double step = std::log(values[i] / ranges[i].start);
      pull += step * step;
    }
    return sum / static_cast<double>(sample.size()) + kPull * pull;
  };
  std::vector<double> best = SearchMinimum(ranges, kEvaluations, loss);
  for (double& value : best) value = Rounded(value);
  fit.coefficients = coefficients_of(best);
  std::vector<double> errors = GemmFitErrors(hardware, fit.coefficients, rows);
  for (double& error : errors) error = std::abs(error);
  fit.log_sd = Rounded(Quantile(std::move(errors), 0.9) / kErrorsAtP90);
  // So many coefficients match so few rows by chance.
  if (rows.size() < 2 * free.size()) fit.log_sd = std::max(fit.log_sd, sim::kUnmeasuredGemmSd);
  return fit;
}

}  // namespace twin::run
