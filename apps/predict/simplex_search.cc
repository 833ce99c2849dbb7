#include "apps/predict/simplex_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace twin::run {
namespace {

constexpr double kFirstStep = 0.6;  // in logits
constexpr double kAgreement = 1e-6;

using Point = std::vector<double>;
struct Corner {
  double value;
  Point at;
};

Point FromLogits(const std::vector<SearchRange>& ranges, const Point& logits) {
  Point values;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    values.push_back(ranges[i].low + (ranges[i].high - ranges[i].low) / (1 + std::exp(-logits[i])));
  }
  return values;
}

// from + factor * (to - from)
Point Towards(const Point& from, const Point& to, double factor) {
  Point result = from;
  for (std::size_t i = 0; i < from.size(); ++i) result[i] += factor * (to[i] - from[i]);
  return result;
}

Point MeanWithoutWorst(const std::vector<Corner>& corners) {
  Point mean(corners.front().at.size(), 0.0);
  for (std::size_t c = 0; c + 1 < corners.size(); ++c) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += corners[c].at[i];
  }
  for (double& value : mean) value /= static_cast<double>(corners.size() - 1);
  return mean;
}

}  // namespace

// The coefficients depend on the number of variables (Gao and Han, Computational Optimization and
// Applications 51, 2012): with fixed ones, searches in ten dimensions stall.
std::vector<double> SearchMinimum(
    const std::vector<SearchRange>& ranges, int evaluations,
    const std::function<double(const std::vector<double>&)>& function) {
  const auto dimensions = static_cast<double>(ranges.size());
  const double expand = 1 + 2 / dimensions;
  const double contract = 0.75 - 1 / (2 * dimensions);
  const double shrink = 1 - 1 / dimensions;
  int calls = 0;
  const auto corner = [&](Point at) {
    ++calls;
    const double value = function(FromLogits(ranges, at));
    return Corner{value, std::move(at)};
  };
  Point start;
  for (const SearchRange& r : ranges)
    start.push_back(std::log((r.start - r.low) / (r.high - r.start)));
  std::vector<Corner> corners = {corner(start)};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    Point at = start;
    at[i] += kFirstStep;
    corners.push_back(corner(at));
  }
  const auto by_value = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  while (calls < evaluations) {
    std::ranges::stable_sort(corners, by_value);
    if (corners.back().value - corners.front().value < kAgreement) break;
    Corner& worst = corners.back();
    const double second = corners[corners.size() - 2].value;
    const Point mean = MeanWithoutWorst(corners);
    Corner reflected = corner(Towards(mean, worst.at, -1));
    if (reflected.value < corners.front().value) {
      Corner expanded = corner(Towards(mean, worst.at, -expand));
      worst = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
    } else if (reflected.value < second) {
      worst = std::move(reflected);
    } else {
      const bool outside = reflected.value < worst.value;
      Corner contracted = corner(Towards(mean, worst.at, outside ? -contract : contract));
      if (contracted.value < std::min(reflected.value, worst.value)) {
        worst = std::move(contracted);
      } else {
        for (std::size_t c = 1; c < corners.size(); ++c) {
          corners[c] = corner(Towards(corners.front().at, corners[c].at, shrink));
        }
      }
    }
  }
  return FromLogits(ranges, std::ranges::min_element(corners, by_value)->at);
}

}  // namespace twin::run
