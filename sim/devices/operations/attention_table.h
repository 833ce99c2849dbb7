// Rows of an AttentionTable as text, and what they say about heads that were not measured.
//
// A row is "QUERY_HEADS/KV_HEADS", and for each batch size a blank and one character per length:
// the logarithm of measured over formula. '_' and trailing lengths that are left out were not
// measured. The 89 other characters, from '!' to '~' without quotes, backslash and '_', stand for
// 0.1 sinh(0.08 i), i = -44 ... 44: steps of 0.8 % around 0, up to a factor of 5.4 either way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/grid_position.h"
#include "sim/devices/operations/attention_profile.h"

namespace twin::sim {

struct AttentionRow {
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::vector<double> log_ratios{};  // [batches][lengths]; NaN = not measured
};

// Throws InputError(`source`) if the text is no row of the grid.
AttentionRow ParseAttentionRow(const AttentionGrid& grid, std::string_view text,
                               const std::string& source);
std::string PrintAttentionRow(const AttentionGrid& grid, const AttentionRow& row);
// Ratios of a printed row at either end of the scale: what was measured may lie beyond.
std::size_t CutRatios(std::string_view row);
// Measured over formula at the upper end of the scale, and formula over measured at the lower one.
double LargestRatio();

// Logarithm of measured over formula.
struct LogRatio {
  double mean = 0;
  double sd = 0;
};

// Prompts without a base: kriging what a base leaves gains nothing over weighted means.
bool Kriges(const AttentionTable& table);

// The correction of a table for one pair of head counts, interpolated linearly in the logarithms of
// batch size and length, constant beyond the grid.
//
// At a grid point it is the mean of the measured rows of the same length, weighted by
// exp(-distance^2): a quarter of a power of 2 in the number of heads in all (requests x heads), and
// the table's scales for the group and the batch size at an equal number of them. Heads that were
// measured get their own row. The standard deviation grows with the distance and with the
// disagreement of the neighbours. Prompt calls that were not measured may be kriged instead
// (prompt_kriging.h), from calls of all lengths.
// A grid point is computed when a call first needs it: up to some tens of microseconds. Copies
// share the points. Callable from several threads.
class AttentionCorrection {
 public:
  // No measurement: 0, with a standard deviation of `sd`.
  explicit AttentionCorrection(double sd) : sd_(sd) {}
  // Leaves out the row `left_out`, for cross-validation.
  AttentionCorrection(AttentionTable table, const AttentionGrid& grid,
                      std::vector<AttentionRow> rows, std::int32_t query_heads,
                      std::int32_t kv_heads, int left_out = -1);

  [[nodiscard]] LogRatio operator()(double batch, double length) const;
  // The position of a batch on the grid, and operator() there.
  [[nodiscard]] GridPosition PositionOf(double batch) const;
  [[nodiscard]] LogRatio At(const GridPosition& batch, double length) const;
  // The means of one batch between two neighbouring lengths of the grid.
  struct Segment {
    double from = 0;  // logarithms to base 2
    double to = 0;    // not above `from`: of no lengths
    double at_from = 0;
    double at_to = 0;
  };
  // The mean of At() alone. REQUIRES: `segment` is new, or was used with this batch.
  [[nodiscard]] double MeanAt(const GridPosition& batch, double length, Segment& segment) const;

  // Both REQUIRE: no correction was asked for yet.
  // Replaces what was not measured; nothing if no row is left. REQUIRES: Kriges(table).
  void KrigePrompts();
  // Adds the means of `base`, with which this table's rows were made.
  void AddBase(AttentionCorrection base);

 private:
  struct Points;
  // At one of the lengths. REQUIRES: measurements.
  [[nodiscard]] LogRatio AtPoint(const GridPosition& batch, std::size_t length) const;

  double sd_ = 0;
  std::shared_ptr<Points> points_;  // null: no measurement
};

}  // namespace twin::sim
