#include "sim/devices/operations/gemm_closed_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace twin::sim {
namespace {

struct Tile {
  double m;
  double n;
};

constexpr Tile kTiles[] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128},
                           {64, 256},  {64, 64},   {64, 32},   {32, 64},   {16, 64},  {16, 32}};
// Tiles by which the fill of a product's waves is judged: the best of them counts.
constexpr Tile kCommonTiles[] = {{128, 256}, {256, 128}, {128, 128}, {64, 256},
                                 {64, 128},  {128, 64},  {64, 64}};
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
  if (format == GemmFormat::kFp32) return 4;
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
    case GemmFormat::kFp32:
      return 4;
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
  const double x = ActivationBytes(shape);
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

// A tile and a split.
struct Tiling {
  double compute;
  double memory;
  double again;    // operands that tiles read again
  double longest;  // of the three
  double reduction;
};

double TilingSeconds(const Tiling& tiling, double overlap) {
  const double longest = tiling.longest;
  return longest * std::pow(std::pow(tiling.compute / longest, overlap) +
                                std::pow(tiling.memory / longest, overlap) +
                                std::pow(tiling.again / longest, overlap),
                            1 / overlap) +
         tiling.reduction;
}

struct Tilings {
  std::array<Tiling, std::size(kTiles) * std::size(kSplits)> all;
  std::size_t count = 0;
  std::size_t likely = 0;  // the fastest, or nearly so
};

// CUDA cores, which compute fp32, need no more rows than there are; tensor cores take whole tiles.
double ComputedRows(GemmFormat format, double m, const Tile& tile) {
  constexpr double kRows = 8;
  if (format != GemmFormat::kFp32) return tile.m;
  return std::min(tile.m, std::ceil(m / kRows) * kRows);
}

Tilings TilingsOf(const HardwareSpec& hardware, const GemmCoefficients& c, const GemmShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double sms = hardware.sm_count > 0 ? hardware.sm_count : kUnknownSms;
  const double flops_per_sm = PeakFlops(hardware, shape.format) * c.flops_fraction / sms;
  const double l2 = sms * c.l2_bytes_per_s;
  const Traffic traffic = TrafficOf(hardware, c, shape, sms);
  const double reference = 1 + c.tile_loss * (1 / kReference.m + 1 / kReference.n);

  Tilings tilings;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double parts = m / tile.m;
    const double rows = std::max(1.0, parts + c.row_rounding * (std::ceil(parts) - parts));
    const double tile_rows = ComputedRows(shape.format, m, tile);
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
          rounded * (2 * tile_rows * tile.n * depth / (flops_per_sm * speed) + c.wave_s);
      const double memory = traffic.seconds / std::min(1.0, tiles / (sms * c.saturating_tiles));
      const double reduction = split > 1 ? c.split_s + 4 * m * n * split / l2 : 0;
      const double longest = std::max({compute, memory, again});
      if (longest + reduction < least) {
        least = longest + reduction;
        tilings.likely = tilings.count;
      }
      tilings.all[tilings.count++] = {compute, memory, again, longest, reduction};
    }
  }
  return tilings;
}

// ln of the time that whole waves of whole tiles take, over the time of the same multiplications on
// an SM without edges.
double LogOfWholeWaves(double sms, double tile_loss, double m, double n) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kCommonTiles) {
    const double waves = std::ceil(std::ceil(m / tile.m) * std::ceil(n / tile.n) / sms);
    least = std::min(least, waves * (tile.m * tile.n + tile_loss * (tile.m + tile.n)));
  }
  return std::log(least * sms / (m * n));
}

}  // namespace

double PeakFlops(const HardwareSpec& hardware, GemmFormat format) {
  const double bf16 =
      hardware.peak_bf16_flops > 0 ? hardware.peak_bf16_flops : hardware.peak_fp32_flops;
  if (format == GemmFormat::kFp32 && hardware.peak_fp32_flops > 0) return hardware.peak_fp32_flops;
  if (format == GemmFormat::kFp4 && hardware.peak_fp8_flops > 0) {
    return 2 * hardware.peak_fp8_flops;
  }
  const bool is_fp8 = format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block;
  return is_fp8 && hardware.peak_fp8_flops > 0 ? hardware.peak_fp8_flops : bf16;
}

double ActivationBytes(const GemmShape& shape) {
  return XByteSize(shape.format) * static_cast<double>(shape.m) * static_cast<double>(shape.k);
}

double WeightBytes(const GemmShape& shape) {
  return WeightByteSize(shape.format) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

double GemmClosedForm(const HardwareSpec& hardware, const GemmCoefficients& c,
                      const GemmShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto k = static_cast<double>(shape.k);
  const Tilings tilings = TilingsOf(hardware, c, shape);
  // Powers are expensive: begin with the likely one, and leave out what cannot be faster.
  double best = TilingSeconds(tilings.all[tilings.likely], c.overlap);
  for (std::size_t i = 0; i < tilings.count; ++i) {
    const Tiling& tiling = tilings.all[i];
    if (i == tilings.likely || tiling.longest + tiling.reduction >= best) continue;
    best = std::min(best, TilingSeconds(tiling, c.overlap));
  }
  const double quantize =
      c.quantize_s + c.quantize_passes * 2 * m * k /
                         (hardware.memory_bandwidth_bytes_per_s * c.bandwidth_fraction);
  const double seconds = best + c.latency_s + quantize;
  if (c.whole_waves == 0) return seconds;
  const auto n = static_cast<double>(shape.n);
  const double sms = hardware.sm_count > 0 ? hardware.sm_count : kUnknownSms;
  const double compute = 2 * m * n * k / (PeakFlops(hardware, shape.format) * c.flops_fraction);
  const double share = std::min(1.0, compute / seconds);
  return seconds * std::exp(c.whole_waves * share * LogOfWholeWaves(sms, c.tile_loss, m, n));
}

}  // namespace twin::sim
