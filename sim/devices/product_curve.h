// The times of one matrix product as steps show them.
//
// Weights come from memory, since those of a model do not fit into L2. Measurements repeat one
// product: on an L40S, whose L2 has 96 MB, 20 to 30 % of products of few rows took less time than
// their weights take from memory. No rows of A100, H100 and H200 do.
//
// Isolated products get faster with more rows at some sizes, and interpolation widens such a bump;
// steps do not show it, since libraries pad to the faster tile. So a product costs at most what one
// of more rows does: of sizes up to a tile beyond kFewRows, or the next few multiples of a tile.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/token_table.h"

namespace twin::sim {

// TensorRT-LLM's measured products in fp8 and nvfp4 include the conversion of their inputs, in
// kernels of their own: 12 us for the smallest in fp8. Its engines convert in the operation before,
// with scales that are known ahead, so that a product takes at most the share of its time in 16
// bits that it has of the bytes, and half of a launch. Decodes of Llama-70B with 4 users on an H200
// (TensorRT-LLM 1.1, public): 20.1 ms; 19.8 so, 28.6 with the conversions.
//
// Thread-safe. Remembers the times at multiples of a tile, which all sizes below them ask for.
class ProductCurve {
 public:
  explicit ProductCurve(GemmCurve curve);
  // A product whose inputs come converted; `in_16_bits` is the same product in 16 bits, of which
  // the weights have `share` of the bytes.
  ProductCurve(GemmCurve curve, GemmCurve in_16_bits, double share);

  // REQUIRES: rows >= 1.
  [[nodiscard]] TimeEstimate operator()(std::int64_t rows) const;

  // As in GemmCurve.
  [[nodiscard]] BackToBackCalls calls() const { return curve_.calls(); }
  [[nodiscard]] double MeasuredCall(std::int64_t rows) const { return curve_.MeasuredCall(rows); }

 private:
  [[nodiscard]] TimeEstimate Time(std::int64_t rows) const;
  // The time of `rows` rows, remembered at `place`.
  [[nodiscard]] TimeEstimate At(std::int64_t place, std::int64_t rows) const;

  GemmCurve curve_;
  std::optional<GemmCurve> in_16_bits_;
  double share_ = 1;
  EstimateTable places_;
};

}  // namespace twin::sim
