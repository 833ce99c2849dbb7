#include "apps/predict/memory_bound_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "apps/predict/simplex_search.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr int kMemoryBoundEvaluations = 400;
constexpr double kStandardDeviationsAtP90 = 1.645;
constexpr double kSpreadLeast = 0.02;
constexpr double kFractionMost = 4;  // that a profile may have

double ToFourDigits(double value) {
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

std::vector<double> Errors(const HardwareSpec& hardware, double latency_us, double fraction,
                           std::span<const MemoryBoundRow> rows) {
  const double rate = 1e-6 * fraction * hardware.memory_bandwidth_bytes_per_s;
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const MemoryBoundRow& row : rows) {
    errors.push_back(std::abs(std::log((latency_us + row.bytes / rate) / row.microseconds)));
  }
  return errors;
}

}  // namespace

sim::MemoryBoundFit FitMemoryBound(const HardwareSpec& hardware, sim::MemoryBoundKernel kernel,
                                   std::span<const MemoryBoundRow> rows) {
  const auto loss = [&](const std::vector<double>& at) {
    return Mean(Errors(hardware, at[0], at[1], rows));
  };
  const std::vector<double> best =
      SearchMinimum({{0.1, 3, 100}, {0.02, 0.8, kFractionMost}}, kMemoryBoundEvaluations, loss);
  sim::MemoryBoundFit fit{.kernel = kernel,
                          .latency_us = ToFourDigits(best[0]),
                          .bandwidth_fraction = ToFourDigits(best[1])};
  const double p90 = Quantile(Errors(hardware, fit.latency_us, fit.bandwidth_fraction, rows), 0.9);
  fit.spread = ToFourDigits(std::max(kSpreadLeast, p90 / kStandardDeviationsAtP90));
  return fit;
}

}  // namespace twin::run
