#include "sim/cost/cost_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/input_error.h"

namespace twin::sim {
namespace {

void Validate(const std::string& name, const std::vector<CostPoint>& points) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kUsage, fmt::format("cost.fitted.{}", name), what);
  };
  if (points.empty()) refuse("is empty; allowed: at least one point");
  double before = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CostPoint& point = points[i];
    if (!(std::isfinite(point.at) && point.at > before)) {
      refuse(fmt::format("point {}: `at` is {}; allowed: above {}", i, point.at, before));
    }
    if (!(std::isfinite(point.seconds) && point.seconds >= 0)) {
      refuse(fmt::format("point {}: `seconds` is {}; allowed: 0 or more", i, point.seconds));
    }
    before = point.at;
  }
}

double LeastTimePerUnit(const std::vector<CostPoint>& points) {
  double least = points.front().seconds / points.front().at;
  for (const CostPoint& point : points) least = std::min(least, point.seconds / point.at);
  return least;
}

}  // namespace

CostTable::CostTable(const std::string& name, std::vector<CostPoint> points)
    : points_(std::move(points)), slope_beyond_(0) {
  Validate(name, points_);
  slope_beyond_ = LeastTimePerUnit(points_);
}

double CostTable::At(double size) const {
  if (size <= 0) return 0;
  const auto above =
      std::lower_bound(points_.begin(), points_.end(), size,
                       [](const CostPoint& point, double value) { return point.at < value; });
  if (above == points_.begin()) return above->seconds;
  const CostPoint& below = *(above - 1);
  if (above == points_.end()) return below.seconds + slope_beyond_ * (size - below.at);
  const double share = (size - below.at) / (above->at - below.at);
  return below.seconds + share * (above->seconds - below.seconds);
}

}  // namespace twin::sim
