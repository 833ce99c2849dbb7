// The times of one matrix product as steps show them.
//
// Isolated products get faster with more rows at some sizes, and interpolation widens such a bump;
// steps do not show it, since libraries pad to the faster tile. So a product costs at most what one
// of more rows does: of sizes up to a tile beyond kFewRows, or the next few multiples of a tile.
#pragma once

#include <cstdint>

#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/token_table.h"

namespace twin::sim {

// Thread-safe. Remembers the times at multiples of a tile, which all sizes below them ask for.
class ProductCurve {
 public:
  explicit ProductCurve(GemmCurve curve);

  // REQUIRES: rows >= 1.
  [[nodiscard]] Estimate operator()(std::int64_t rows) const;

  // As in GemmCurve.
  [[nodiscard]] BackToBackCalls calls() const { return curve_.calls(); }
  [[nodiscard]] double MeasuredCall(std::int64_t rows) const { return curve_.MeasuredCall(rows); }

 private:
  // The time of `rows` rows, remembered at `place`.
  [[nodiscard]] Estimate At(std::int64_t place, std::int64_t rows) const;

  GemmCurve curve_;
  EstimateTable places_;
};

}  // namespace twin::sim
