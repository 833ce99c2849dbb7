#include "apps/page/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr std::size_t kWindows = 60;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double LastFinite(const std::vector<double>& values) {
  double last = 0;
  for (const double value : values) {
    if (std::isfinite(value)) last = std::max(last, value);
  }
  return last;
}

std::size_t WindowOf(double time, double end, std::size_t windows) {
  return std::min(static_cast<std::size_t>(time / end * static_cast<double>(windows)), windows - 1);
}

FigureLine Distribution(const std::string& name, const std::vector<double>& values) {
  FigureLine line{.name = name, .x = {}, .y = {}, .low = {}, .high = {}, .fills = {}};
  for (const double value : values) {
    if (value > 0) line.x.push_back(value);
  }
  std::ranges::sort(line.x);
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    line.y.push_back(static_cast<double>(i + 1) / static_cast<double>(line.x.size()));
  }
  return line;
}

FigureLine MedianOverTime(const std::string& name, const std::vector<double>& arrivals,
                          const std::vector<double>& values) {
  FigureLine line{.name = name, .x = {}, .y = {}, .low = {}, .high = {}, .fills = {}};
  if (values.empty()) return line;
  const double end = std::max(LastFinite(arrivals), 1e-9);
  std::vector<std::vector<double>> windows(kWindows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    windows[WindowOf(arrivals[i], end, kWindows)].push_back(values[i]);
  }
  for (std::size_t i = 0; i < kWindows; ++i) {
    line.x.push_back(end * (static_cast<double>(i) + 0.5) / kWindows);
    line.y.push_back(windows[i].empty() ? kNothing : Median(windows[i]));
  }
  return line;
}

}  // namespace twin::run
