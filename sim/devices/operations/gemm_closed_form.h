// How long a matrix product takes, from a data sheet and a few coefficients.
//
// A product is cut into tiles of a x b results, perhaps also into s parts along k. The device works
// on one tile per SM at a time, so tiles run in waves. A wave takes its multiplications at the rate
// of the tile's shape, or its memory traffic, whichever is longer; a norm with a finite exponent
// lets both count where they are close. Few tiles cannot saturate the memory, which is why small
// products are split along k. Of all tile shapes and splits the fastest counts, as libraries choose
// by heuristics or measurement.
//
// Parts of a tile count as parts along m, because libraries change the shape of tiles with m: one
// row beyond a tile costs 0 to 13 %, not a whole tile. Measured tables hold what it costs. Between
// measured m, `whole_waves` says how much of a step from one number of waves to the next to expect.
//
// Easy to get wrong: measurements repeat one product with a few copies of its weights, so operands
// that are small compared with L2 come from there. In a model
// they do not; GemmModel::EstimateFromMemory() is for that.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::sim {

// Y[m, n] = X[m, k] W[k, n].
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmFormat format = GemmFormat::kBf16;
};

// Seconds. REQUIRES: m, n, k >= 1.
double GemmClosedForm(const HardwareSpec& hardware, const GemmCoefficients& coefficients,
                      const GemmShape& shape);

// The dense peak for products of the format; of a wider one if the device has no unit for it.
double PeakFlops(const HardwareSpec& hardware, GemmFormat format);

// Bytes of W, and of X as the product reads it.
double WeightBytes(const GemmShape& shape);
double ActivationBytes(const GemmShape& shape);

}  // namespace twin::sim
