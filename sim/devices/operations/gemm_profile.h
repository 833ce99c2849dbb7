// Measurements of a device's matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/devices/operations/kernel_library.h"

namespace twin::sim {

// Format of the operands. Times of the fp8 formats include the quantization of the activations; the
// integer formats have weights of 8 and 4 bits, which are widened and multiplied as bf16.
// fp4 is nvfp4, weights and activations of 4 bits with a scale for 16 of them; it multiplies at
// twice the rate of fp8 where there is an fp8 unit. mxfp4 has weights of 4 bits with a scale for
// 32, multiplied as bf16 (kMxfp4), or with activations in mxfp8 (kMxfp4Fp8).
enum class GemmFormat : std::uint8_t {
  kBf16,
  kFp8,
  kFp8Block,
  kInt8,
  kInt4,
  kFp4,
  kFp32,
  kMxfp4,
  kMxfp4Fp8
};

// The parameters of the closed form in gemm_closed_form.h. The defaults were fitted to four kinds
// of GPUs together; fits of other devices begin with them.
struct GemmCoefficients {
  double flops_fraction = 0.75;      // of the peak, in tiles of 256 x 128
  double bandwidth_fraction = 0.77;  // of the memory
  double latency_s = 1.8e-6;         // launch, ramp and drain
  double tile_loss = 76;             // a x b tiles: time per product ~ 1 + tile_loss (1/a + 1/b)
  double wave_s = 1e-6;              // per wave of tiles
  double saturating_tiles = 0.52;    // tiles per SM from which on the memory is saturated
  double split_s = 2.6e-6;           // of a split along k
  double l2_bytes_per_s = 267e9;     // per SM: operands that tiles read again
  double overlap = 2.7;              // of compute and memory: exponent of the norm that adds them
  double wave_rounding = 0.1;        // 1 = a part of a wave takes as long as a whole one
  // 1 = a part of a tile along m takes as long as a whole one. Fitted only to quantized formats and
  // to few (n, k): tables of bf16 interpolate better with 0.
  double row_rounding = 0;
  // How much times follow whole waves of whole tiles: exponent of the time of whole waves over that
  // of the work in them, for the best of the common tiles, where compute takes all of the time.
  // Fitted to the errors of interpolation between measured m and (n, k); without a table it does
  // not count.
  double whole_waves = 0;
  double weight_copies = 6;            // of the measurement: more than fit into L2 are read cold
  double resident_bytes_per_s = 21e9;  // per SM: operands that are in L2
  double quantize_s = 0;               // a kernel that quantizes activations
  double quantize_passes = 0;          // its traffic, in passes over m x k bf16 values

  bool operator==(const GemmCoefficients&) const = default;
};

// The closed form of one format.
struct GemmFit {
  GemmFormat format = GemmFormat::kBf16;
  GemmCoefficients coefficients;
  double log_sd = 0;  // of the rows that it was fitted to

  bool operator==(const GemmFit&) const = default;
};

// Ranges of m (tokens): up to 128, up to 1,024, more.
inline constexpr std::size_t kGemmRanges = 3;

// How a benchmark takes a time: calls back to back, of which the last ones are timed. Such calls
// warm the device up (device_state.h). No timed ones: it lets the device rest.
struct BackToBackCalls {
  std::uint32_t untimed = 0;
  std::uint32_t timed = 0;

  bool operator==(const BackToBackCalls&) const = default;
};

// How curves of (n, k) that were not measured are interpolated (gemm_kriging.h).
enum class GemmBetweenShapes : std::uint8_t {
  kNear,      // errors of the closed form resemble each other the more, the nearer (n, k) are
  kAdditive,  // products of equal n, or of equal k, err alike as well
  kPooled     // as kAdditive, and the format's other tables are taken into account
};

// Measured times of one library and format on a grid, as logarithms of their ratio to the closed
// form of the format. gemm_kriging.h interpolates them between (n, k), gemm_table.h along m.
struct GemmTable {
  KernelLibrary library = KernelLibrary::kVllm;
  GemmFormat format = GemmFormat::kBf16;
  BackToBackCalls calls;         // of each measurement
  std::vector<std::uint32_t> m;  // all three ascending
  std::vector<std::uint32_t> n;
  std::vector<std::uint32_t> k;
  // One curve over m for each (n, k), n-major; empty where nothing was measured. A profile writes
  // all curves of one n as one text (JoinGemmCurves).
  std::vector<std::string> curves;
  // Per range of m: standard deviation at an (n, k) or an m that was not measured, over the square
  // root of the kriging variance there.
  std::vector<double> shape_sd;  // kGemmRanges of each
  std::vector<double> m_sd;
  GemmBetweenShapes between_shapes = GemmBetweenShapes::kNear;
  // Where another library was measured at more m, its table of the format says how times go between
  // the m of this one: `trend_share` of its log ratios is taken out of the curves before they are
  // interpolated over m. 0: none. A table that is a trend has none itself.
  double trend_share = 0;
  KernelLibrary trend_library = KernelLibrary::kVllm;

  bool operator==(const GemmTable&) const = default;
};

// Empty: the closed form of GemmModel with the fractions of the data sheet.
struct GemmProfile {
  std::vector<GemmFit> fits;
  std::vector<GemmTable> tables;

  bool operator==(const GemmProfile&) const = default;
};

// Throws InputError (usage) "tables[1].curves: ..." for the first table whose axes are not
// ascending, whose curves are not one per (n, k) with one character per m, whose format has no fit,
// or whose trend is not another table of the format without a trend.
void Validate(const GemmProfile& profile);

}  // namespace twin::sim
