// Which configurations a search keeps, how it ranks them, and which of them no other dominates.
// Pure functions of scores.
//
// A score is the objective of one configuration with one seed; larger is better. The k-th scores of
// all configurations belong to one seed, so that comparisons are paired.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace twin::run {

// Scores by configuration, then seed.
using Scores = std::vector<std::vector<double>>;

struct HalvingRule {
  double keep_share = 0.25;
  std::size_t keep_min = 4;
  double level = 0.95;      // of the paired intervals
  double tolerance = 0.01;  // share of the score below which differences do not matter
};

// One rung of successive halving (Jamieson, Talwalkar 2016). Keeps the best share by mean, the
// first of equals, and every further configuration that the seeds cannot tell from the last one of
// this share: the paired interval of the difference reaches above the tolerance. With the
// confidence of the interval, a dropped configuration is therefore at most the tolerance better
// than a kept one. Returns indices in the order of the configurations. REQUIRES: as many scores for
// each.
std::vector<std::size_t> Survivors(const Scores& scores, const HalvingRule& rule);

struct RankedConfiguration {
  std::size_t index = 0;
  // Not shown to be worse than the first by more than the tolerance: paired t intervals at the
  // level divided by the number of comparisons (Bonferroni).
  bool tied = true;
};

// Ranks by mean, the best first; equal means in the order of the configurations.
std::vector<RankedConfiguration> RankConfigurations(const Scores& scores, double level,
                                                    double tolerance);

// The points that no other point dominates: none is at least as good in everything and better in
// something. Larger is better. Returns indices in the order of the points; of equal points the
// first.
std::vector<std::size_t> ParetoFront(const std::vector<std::vector<double>>& points);

}  // namespace twin::run
