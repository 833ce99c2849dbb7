#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "kernels/routing.h"
#include "kernels/row_ranges.h"

namespace twin::kernels {
namespace {

// The index of the largest value that is not negative, the first one among equals.
std::size_t LargestLeft(std::span<const float> values) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) continue;
    if (best == values.size() || values[i] > values[best]) best = i;
  }
  return best;
}

// Chooses as many of the logits as `chosen` has room for. Overwrites the logits.
void Choose(std::span<float> logits, bool normalised, std::span<std::int32_t> chosen,
            std::span<float> weights) {
  constexpr float kTaken = -1;
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& value : logits) {
    value = std::exp(value - largest);
    sum += value;
  }
  float sum_of_chosen = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t best = LargestLeft(logits);
    chosen[i] = static_cast<std::int32_t>(best);
    weights[i] = logits[best] / sum;
    sum_of_chosen += weights[i];
    logits[best] = kTaken;
  }
  if (!normalised) return;
  for (float& weight : weights) weight /= sum_of_chosen;
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

void RouteRows(ThreadPool& pool, MatrixView<const float> logits, std::int32_t experts_per_row,
               bool normalised, RoutedRows& routed) {
  CHECK(experts_per_row >= 1 && experts_per_row <= logits.columns);
  const auto per_row = static_cast<std::size_t>(experts_per_row);
  const std::size_t pairs = static_cast<std::size_t>(logits.rows) * per_row;
  routed.chosen.resize(pairs);
  routed.chosen_weights.resize(pairs);
  constexpr std::int64_t kRowsPerRange = 64;
  const auto choose = [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
    auto* const scratch = pool.scratch(thread).Reserve<float>(logits.columns);
    for (std::int64_t row = begin; row < end; ++row) {
      std::copy_n(logits.Row(row), logits.columns, scratch);
      const std::size_t first = static_cast<std::size_t>(row) * per_row;
      Choose({scratch, static_cast<std::size_t>(logits.columns)}, normalised,
             std::span(routed.chosen).subspan(first, per_row),
             std::span(routed.chosen_weights).subspan(first, per_row));
    }
  };
  pool.ParallelFor(logits.rows, kRowsPerRange, choose);
  SortByExpert(logits.rows, logits.columns, experts_per_row, routed);
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
