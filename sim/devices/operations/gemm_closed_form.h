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

#include <array>
#include <cstddef>
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

// The closed form of products with one weight matrix: what does not depend on m is computed once.
// Thread-safe. About 1.5 KB.
class GemmForm {
 public:
  // REQUIRES: n, k >= 1.
  GemmForm(const HardwareSpec& hardware, const GemmCoefficients& coefficients, std::int64_t n,
           std::int64_t k, GemmFormat format);

  // Seconds. REQUIRES: m >= 1.
  [[nodiscard]] double operator()(std::int64_t m) const;

 private:
  static constexpr std::size_t kTiles = 12;
  static constexpr std::size_t kCommonTiles = 7;
  static constexpr std::size_t kSplits = 6;  // an even number: one more than there are

  struct Tile {
    double rows = 0;
    double width = 0;
    double columns = 0;                    // tiles along n
    double flops_per_s = 0;                // of an SM
    std::array<double, kSplits> depths{};  // of the parts along k, with padding; infinite: no split
    std::array<double, kSplits> waves{};   // seconds of a wave of whole tiles
  };
  struct CommonTile {
    double rows = 0;
    double columns = 0;  // tiles along n
    double work = 0;     // of a tile, with its edges
  };
  struct Operands;
  struct Tilings;

  void SetUpTile(Tile& tile, double reference) const;
  [[nodiscard]] std::array<double, kSplits> WaveSeconds(const Tile& tile, double tile_rows) const;
  // Seconds to move all operands once, memory saturated.
  [[nodiscard]] double TrafficSeconds(double m, double x_bytes) const;
  [[nodiscard]] Operands OperandsOf(double m) const;
  void SetTilings(std::size_t tile, const Operands& operands, Tilings& tilings) const;
  // The fastest of the tilings.
  [[nodiscard]] double BestSeconds(double m) const;
  [[nodiscard]] double LogOfWholeWaves(double m) const;

  GemmCoefficients c_;
  GemmFormat format_;
  double n_;
  double k_;
  double l2_bytes_;
  double bandwidth_;
  double peak_flops_;
  double sms_;
  double x_row_bytes_per_k_;
  double weight_bytes_;
  double l2_bytes_per_s_;
  std::array<Tile, kTiles> tiles_;
  std::array<CommonTile, kCommonTiles> common_tiles_;
};

// Seconds of one product. REQUIRES: m, n, k >= 1.
double GemmClosedForm(const HardwareSpec& hardware, const GemmCoefficients& coefficients,
                      const GemmShape& shape);

// The dense peak for products of the format; of a wider one if the device has no unit for it.
double PeakFlops(const HardwareSpec& hardware, GemmFormat format);

// Bytes of W, and of X as the product reads it.
double WeightBytes(const GemmShape& shape);
double ActivationBytes(const GemmShape& shape);

}  // namespace twin::sim
