#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "kernels/routing.h"
#include "kernels/row_ranges.h"

namespace twin::kernels {
namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

// The index of the largest value that is not taken, the first one among equals.
std::size_t LargestLeft(std::span<const float> values) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == kTaken) continue;
    if (best == values.size() || values[i] > values[best]) best = i;
  }
  return best;
}

// Turns logits into scores times the divisor that is returned.
float Score(ExpertScore score, std::span<float> logits) {
  if (score == ExpertScore::kSigmoid) {
    for (float& value : logits) value = 1 / (1 + std::exp(-value));
    return 1;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& value : logits) {
    value = std::exp(value - largest);
    sum += value;
  }
  return sum;
}

// The sum of the `count` largest ranks of a group; `group` is overwritten.
float BestOf(std::span<float> group, std::int32_t count) {
  std::partial_sort(group.begin(), group.begin() + count, group.end(), std::greater<>());
  return std::accumulate(group.begin(), group.begin() + count, 0.0F);
}

// Takes the ranks of all groups but the best ones. `scratch`: a rank for each expert, and one for
// each group.
void KeepBestGroups(const ExpertChoice& choice, std::span<float> ranks, std::span<float> scratch) {
  const auto groups = static_cast<std::size_t>(choice.groups);
  const std::size_t size = ranks.size() / groups;
  const std::span<float> copy = scratch.first(ranks.size());
  const std::span<float> sums = scratch.subspan(ranks.size(), groups);
  std::ranges::copy(ranks, copy.begin());
  for (std::size_t g = 0; g < groups; ++g) {
    sums[g] = BestOf(copy.subspan(g * size, size), choice.best_of_group);
  }
  for (std::int32_t kept = 0; kept < choice.groups_kept; ++kept) sums[LargestLeft(sums)] = kTaken;
  for (std::size_t g = 0; g < groups; ++g) {
    if (sums[g] != kTaken) std::ranges::fill(ranks.subspan(g * size, size), kTaken);
  }
}

// The floats of scratch memory that Choose() needs.
std::int64_t ScratchFloats(std::int64_t experts, const ExpertChoice& choice) {
  return 3 * experts + choice.groups;
}

// Chooses for one row of logits.
void Choose(std::span<const float> logits, const ExpertChoice& choice, std::span<float> scratch,
            std::span<std::int32_t> chosen, std::span<float> weights) {
  const std::span<float> scores = scratch.first(logits.size());
  const std::span<float> ranks = scratch.subspan(logits.size(), logits.size());
  std::ranges::copy(logits, scores.begin());
  const float divisor = Score(choice.score, scores);
  std::ranges::copy(scores, ranks.begin());
  for (std::size_t i = 0; i < choice.bias.size(); ++i) {
    ranks[i] = scores[i] / divisor + choice.bias[i];
  }
  if (choice.groups > 1) KeepBestGroups(choice, ranks, scratch.subspan(2 * logits.size()));
  float sum_of_chosen = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t best = LargestLeft(ranks);
    chosen[i] = static_cast<std::int32_t>(best);
    weights[i] = scores[best] / divisor;
    sum_of_chosen += weights[i];
    ranks[best] = kTaken;
  }
  if (choice.normalised) {
    for (float& weight : weights) weight /= sum_of_chosen;
  }
  if (choice.scale != 1) {
    for (float& weight : weights) weight *= choice.scale;
  }
}

void SortByExpert(std::int64_t rows, std::int64_t experts, std::int32_t per_row,
                  RoutedRows& routed) {
  routed.first.assign(static_cast<std::size_t>(experts + 1), 0);
  for (const std::int32_t expert : routed.chosen) {
    ++routed.first[static_cast<std::size_t>(expert) + 1];
  }
  for (std::size_t i = 1; i < routed.first.size(); ++i) routed.first[i] += routed.first[i - 1];
  std::vector<std::int64_t> next(routed.first.begin(), routed.first.end() - 1);
  routed.rows.resize(routed.chosen.size());
  routed.weights.resize(routed.chosen.size());
  std::size_t pair = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int32_t i = 0; i < per_row; ++i, ++pair) {
      std::int64_t& place = next[static_cast<std::size_t>(routed.chosen[pair])];
      const auto to = static_cast<std::size_t>(place++);
      routed.rows[to] = static_cast<std::int32_t>(row);
      routed.weights[to] = routed.chosen_weights[pair];
    }
  }
}

template <class T>
std::span<const T> Part(const std::vector<T>& all, const std::vector<std::int64_t>& first,
                        std::int64_t expert) {
  const std::int64_t begin = first[static_cast<std::size_t>(expert)];
  const std::int64_t end = first[static_cast<std::size_t>(expert) + 1];
  return std::span(all).subspan(static_cast<std::size_t>(begin),
                                static_cast<std::size_t>(end - begin));
}

}  // namespace

std::span<const std::int32_t> RoutedRows::RowsOf(std::int64_t expert) const {
  return Part(rows, first, expert);
}

std::span<const float> RoutedRows::WeightsOf(std::int64_t expert) const {
  return Part(weights, first, expert);
}

void RouteRows(ThreadPool& pool, MatrixView<const float> logits, const ExpertChoice& choice,
               RoutedRows& routed) {
  CHECK(choice.groups >= 1 && choice.groups_kept >= 1 && choice.groups_kept <= choice.groups);
  CHECK(logits.columns % choice.groups == 0);
  const std::int64_t group = logits.columns / choice.groups;
  CHECK(choice.best_of_group >= 1 && choice.best_of_group <= group);
  CHECK(choice.experts_per_row >= 1 && choice.experts_per_row <= group * choice.groups_kept);
  CHECK(choice.bias.empty() || static_cast<std::int64_t>(choice.bias.size()) == logits.columns);
  const auto per_row = static_cast<std::size_t>(choice.experts_per_row);
  const std::int64_t floats = ScratchFloats(logits.columns, choice);
  const std::size_t pairs = static_cast<std::size_t>(logits.rows) * per_row;
  routed.chosen.resize(pairs);
  routed.chosen_weights.resize(pairs);
  constexpr std::int64_t kRowsPerRange = 64;
  const auto choose = [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
    auto* const scratch = pool.scratch(thread).Reserve<float>(floats);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * per_row;
      Choose({logits.Row(row), static_cast<std::size_t>(logits.columns)}, choice,
             {scratch, static_cast<std::size_t>(floats)},
             std::span(routed.chosen).subspan(first, per_row),
             std::span(routed.chosen_weights).subspan(first, per_row));
    }
  };
  pool.ParallelFor(logits.rows, kRowsPerRange, choose);
  SortByExpert(logits.rows, logits.columns, choice.experts_per_row, routed);
}

void AddScaledRows(ThreadPool& pool, MatrixView<const float> x, std::span<const std::int32_t> rows,
                   std::span<const float> factors, MatrixView<float> y) {
  CHECK(static_cast<std::int64_t>(rows.size()) == x.rows && rows.size() == factors.size());
  CHECK(x.columns == y.columns);
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    CHECK(row >= 0 && row < y.rows);
    const float factor = factors[static_cast<std::size_t>(i)];
    const float* const from = x.Row(i);
    float* const to = y.Row(row);
    for (std::int64_t d = 0; d < x.columns; ++d) to[d] += factor * from[d];
  });
}

void AddGatedRows(ThreadPool& pool, MatrixView<const float> x, MatrixView<const float> gates,
                  MatrixView<float> y) {
  CHECK(gates.rows == x.rows && gates.columns == 1);
  CHECK(x.rows == y.rows && x.columns == y.columns);
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t i) {
    const float factor = 1 / (1 + std::exp(-*gates.Row(i)));
    const float* const from = x.Row(i);
    float* const to = y.Row(i);
    for (std::int64_t d = 0; d < x.columns; ++d) to[d] += factor * from[d];
  });
}

}  // namespace twin::kernels
