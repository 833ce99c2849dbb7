#include "sim/cost/operations/gemm_closed_form.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace twin::sim {
namespace {

struct Tile {
  double m;
  double n;
};

constexpr Tile kTiles[] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128},
                           {64, 256},  {64, 64},   {64, 32},   {32, 64},   {16, 64},  {16, 32}};
constexpr double kSplits[] = {1, 2, 4, 8, 16};
constexpr double kDepth = 64;  // k is padded to whole multiples
// The tile whose rate is `flops_fraction` of the peak; no tile is much faster.
constexpr Tile kReference{256, 128};
constexpr double kFastestTile = 1.05;
// Share of the L2 that operands fill when they begin and cease to stay in it.
constexpr double kFitsL2 = 0.75;
constexpr double kExceedsL2 = 1.25;
constexpr double kUnknownSms = 100;

struct Traffic {
  double x;        // bytes of the activations
  double weights;  // of the weights
  double seconds;  // of all operands once, memory saturated
};

double XByteSize(GemmFormat format) {
  if (format == GemmFormat::kFp4) return 0.5;
  return format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block ? 1 : 2;
}

double WeightByteSize(GemmFormat format) {
  switch (format) {
    case GemmFormat::kBf16:
      return 2;
    case GemmFormat::kFp8:
    case GemmFormat::kFp8Block:
    case GemmFormat::kInt8:
      return 1;
    case GemmFormat::kInt4:
    case GemmFormat::kFp4:
      return 0.5;
  }
  return 2;
}

// Share of operands of `bytes` that is found in L2.
double Resident(double bytes, double l2_bytes) {
  if (l2_bytes <= 0) return 0;
  return std::clamp((kExceedsL2 - bytes / l2_bytes) / (kExceedsL2 - kFitsL2), 0.0, 1.0);
}

Traffic TrafficOf(const HardwareSpec& hardware, const GemmCoefficients& c, const GemmShape& shape,
                  double sms) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto l2 = static_cast<double>(hardware.l2_bytes);
  const double x = XByteSize(shape.format) * m * k;
  const double weights = WeightBytes(shape);
  const double activations = x + 2 * m * n;
  const double memory = hardware.memory_bandwidth_bytes_per_s * c.bandwidth_fraction;
  const double cache = sms * c.resident_bytes_per_s;
  const double in_cache_w = Resident(weights * c.weight_copies + 2 * m * (n + k), l2);
  const double in_cache_a = Resident(2 * activations, l2);
  const double cached = weights * in_cache_w + activations * in_cache_a;
  return {.x = x,
          .weights = weights,
          .seconds = (weights + activations - cached) / memory + cached / cache};
}

}  // namespace

double PeakFlops(const HardwareSpec& hardware, GemmFormat format) {
  const double bf16 =
      hardware.peak_bf16_flops > 0 ? hardware.peak_bf16_flops : hardware.peak_fp32_flops;
  if (format == GemmFormat::kFp4 && hardware.peak_fp8_flops > 0) {
    return 2 * hardware.peak_fp8_flops;
  }
  const bool is_fp8 = format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block;
  return is_fp8 && hardware.peak_fp8_flops > 0 ? hardware.peak_fp8_flops : bf16;
}

double WeightBytes(const GemmShape& shape) {
  return WeightByteSize(shape.format) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

double GemmClosedForm(const HardwareSpec& hardware, const GemmCoefficients& c,
                      const GemmShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double sms = hardware.sm_count > 0 ? hardware.sm_count : kUnknownSms;
  const double flops_per_sm = PeakFlops(hardware, shape.format) * c.flops_fraction / sms;
  const double l2 = sms * c.l2_bytes_per_s;
  const Traffic traffic = TrafficOf(hardware, c, shape, sms);
  const double reference = 1 + c.tile_loss * (1 / kReference.m + 1 / kReference.n);

  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double parts = m / tile.m;
    const double rows = std::max(1.0, parts + c.row_rounding * (std::ceil(parts) - parts));
    const double columns = std::ceil(n / tile.n);
    const double speed =
        std::min(kFastestTile, reference / (1 + c.tile_loss * (1 / tile.m + 1 / tile.n)));
    const double again = (traffic.x * columns + traffic.weights * rows) / l2;
    for (const double split : kSplits) {
      const double depth = std::ceil(k / split / kDepth) * kDepth;
      if (depth * (split - 1) >= k && split > 1) break;
      const double tiles = rows * columns * split;
      const double waves = tiles / sms;
      const double rounded = std::max(1.0, waves + c.wave_rounding * (std::ceil(waves) - waves));
      const double compute =
          rounded * (2 * tile.m * tile.n * depth / (flops_per_sm * speed) + c.wave_s);
      const double memory = traffic.seconds / std::min(1.0, tiles / (sms * c.saturating_tiles));
      const double longest = std::max({compute, memory, again});
      if (longest >= best) continue;
      const double seconds = longest * std::pow(std::pow(compute / longest, c.overlap) +
                                                    std::pow(memory / longest, c.overlap) +
                                                    std::pow(again / longest, c.overlap),
                                                1 / c.overlap) +
                             (split > 1 ? c.split_s + 4 * m * n * split / l2 : 0);
      best = std::min(best, seconds);
    }
  }
  const double quantize =
      c.quantize_s + c.quantize_passes * 2 * m * k /
                         (hardware.memory_bandwidth_bytes_per_s * c.bandwidth_fraction);
  return best + c.latency_s + quantize;
}

}  // namespace twin::sim
