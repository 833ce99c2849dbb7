// Rows of a MoeTable as text, and what they say about mixtures that were not measured.
//
// Between shapes, kriging over the logarithms of their four sizes; the width of an expert on one
// rank, which decides its tiles, counts double.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/devices/operations/moe_model.h"
#include "sim/devices/operations/moe_profile.h"

namespace twin::sim {

// A shape and its curve.
struct MoeMeasurement {
  MoeShape shape;                  // of one rank
  std::vector<double> log_ratios;  // at the table's tokens
};

// One model on 1, 2, 4 and 8 ranks.
inline constexpr int kMoeRankCounts = 4;

// `model`: a whole layer. REQUIRES: kMoeRankCounts curves, each empty or of the table's tokens.
std::string PrintMoeRow(const MoeShape& model, const std::vector<std::vector<double>>& curves);
// All curves of the table. Throws InputError (usage) "rows[1]: ..." for a malformed row.
std::vector<MoeMeasurement> ParseMoeRows(const MoeTable& table);

struct MoeCurve {
  std::vector<double> log_ratios;  // at the table's tokens
  double variance = 0;             // of kriging; 0 if the shape was measured
};

// The curve of a shape from the measured curves: exactly its own, if it was measured. REQUIRES: all
// curves of one table, at least one.
MoeCurve CurveOf(const std::vector<MoeMeasurement>& measured, const MoeShape& shape);

}  // namespace twin::sim
