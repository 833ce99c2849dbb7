#include "apps/recommend/halving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/statistics.h"
#include "run/many/output_statistics.h"

namespace twin::run {
namespace {

std::vector<std::size_t> BestFirst(const Scores& scores) {
  std::vector<double> means;
  for (const std::vector<double>& one : scores) means.push_back(Mean(one));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&means](std::size_t a, std::size_t b) { return means[a] > means[b]; });
  return order;
}

bool Dominates(const std::vector<double>& a, const std::vector<double>& b) {
  bool better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] < b[i]) return false;
    better = better || a[i] > b[i];
  }
  return better;
}

}  // namespace

std::vector<std::size_t> Survivors(const Scores& scores, const HalvingRule& rule) {
  const std::vector<std::size_t> order = BestFirst(scores);
  const auto share =
      static_cast<std::size_t>(std::ceil(rule.keep_share * static_cast<double>(scores.size())));
  const std::size_t keep = std::min(scores.size(), std::max(rule.keep_min, share));
  std::vector<std::size_t> kept(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep));
  if (keep > 0) {
    const std::vector<double>& cut = scores[order[keep - 1]];
    const double margin = rule.tolerance * std::abs(Mean(cut));
    for (std::size_t i = keep; i < order.size(); ++i) {
      const Interval difference = ComparePaired(scores[order[i]], cut, rule.level).difference;
      if (difference.high > margin) kept.push_back(order[i]);
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<RankedConfiguration> RankConfigurations(const Scores& scores, double level,
                                                    double tolerance) {
  std::vector<RankedConfiguration> ranked;
  const std::vector<std::size_t> order = BestFirst(scores);
  if (order.empty()) return ranked;
  const std::vector<double>& best = scores[order[0]];
  const double margin = tolerance * std::abs(Mean(best));
  const double others = static_cast<double>(std::max<std::size_t>(2, order.size()) - 1);
  for (const std::size_t index : order) {
    const Interval behind = ComparePaired(best, scores[index], 1 - (1 - level) / others).difference;
    ranked.push_back({index, behind.low <= margin});
  }
  return ranked;
}

std::vector<std::size_t> ParetoFront(const std::vector<std::vector<double>>& points) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto here = points.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(points.begin(), here, points[i]) != here) continue;
    const bool dominated = std::ranges::any_of(
        points, [&](const std::vector<double>& other) { return Dominates(other, points[i]); });
    if (!dominated) front.push_back(i);
  }
  return front;
}

}  // namespace twin::run
