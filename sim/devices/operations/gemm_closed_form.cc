#include "sim/devices/operations/gemm_closed_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace twin::sim {
namespace {

struct Size {
  double m;
  double n;
};

constexpr Size kTileSizes[] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128},
                               {64, 256},  {64, 64},   {64, 32},   {32, 64},   {16, 64},  {16, 32}};
// Tiles by which the fill of a product's waves is judged: the best of them counts.
constexpr Size kCommonSizes[] = {{128, 256}, {256, 128}, {128, 128}, {64, 256},
                                 {64, 128},  {128, 64},  {64, 64}};
constexpr double kSplitParts[] = {1, 2, 4, 8, 16};
constexpr double kDepth = 64;  // k is padded to whole multiples
// The tile whose rate is `flops_fraction` of the peak; no tile is much faster.
constexpr Size kReference{256, 128};
constexpr double kFastestTile = 1.05;
// Share of the L2 that operands fill when they begin and cease to stay in it.
constexpr double kFitsL2 = 0.75;
constexpr double kExceedsL2 = 1.25;
constexpr double kUnknownSms = 100;

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

// std::ceil, without a call. REQUIRES: 0 <= x < 2^53.
double Ceil(double x) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole < x ? whole + 1 : whole;
}

// std::pow, which is asked for 1 often.
double Power(double x, double y) { return x == 1 ? 1 : std::pow(x, y); }

// CUDA cores, which compute fp32, need no more rows than there are; tensor cores take whole tiles.
double ComputedRows(GemmFormat format, double m, double tile_rows) {
  constexpr double kRows = 8;
  if (format != GemmFormat::kFp32) return tile_rows;
  return std::min(tile_rows, Ceil(m / kRows) * kRows);
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

// Numbers that all tilings of a product have in common.
struct GemmForm::Operands {
  double m;
  double x_bytes;
  double traffic_s;
  std::array<double, kSplits> reductions;  // seconds, by split
};

// A tile and a split.
struct GemmForm::Tiling {
  double compute;
  double memory;
  double again;    // operands that tiles read again
  double longest;  // of the three
  double reduction;
  double least;  // longest + reduction
  [[nodiscard]] double Seconds(double overlap) const {
    return longest * std::pow(Power(compute / longest, overlap) + Power(memory / longest, overlap) +
                                  Power(again / longest, overlap),
                              1 / overlap) +
           reduction;
  }
};

struct GemmForm::Tilings {
  std::array<Tiling, kTiles * kSplits> all;
  std::size_t count = 0;
  std::size_t likely = 0;  // the fastest, or nearly so
  double least = std::numeric_limits<double>::infinity();
};

GemmForm::GemmForm(const HardwareSpec& hardware, const GemmCoefficients& coefficients,
                   std::int64_t n, std::int64_t k, GemmFormat format)
    : c_(coefficients),
      format_(format),
      n_(static_cast<double>(n)),
      k_(static_cast<double>(k)),
      l2_bytes_(static_cast<double>(hardware.l2_bytes)),
      bandwidth_(hardware.memory_bandwidth_bytes_per_s * c_.bandwidth_fraction),
      peak_flops_(PeakFlops(hardware, format) * c_.flops_fraction),
      sms_(hardware.sm_count > 0 ? hardware.sm_count : kUnknownSms),
      x_row_bytes_per_k_(XByteSize(format)),
      weight_bytes_(WeightBytes({.m = 1, .n = n, .k = k, .format = format})),
      l2_bytes_per_s_(sms_ * c_.l2_bytes_per_s) {
  static_assert(std::size(kTileSizes) == kTiles && std::size(kCommonSizes) == kCommonTiles &&
                std::size(kSplitParts) == kSplits);
  const double reference = 1 + c_.tile_loss * (1 / kReference.m + 1 / kReference.n);
  for (std::size_t i = 0; i < kTiles; ++i) {
    tiles_[i].rows = kTileSizes[i].m;
    tiles_[i].width = kTileSizes[i].n;
    SetUpTile(tiles_[i], reference);
  }
  for (std::size_t i = 0; i < kCommonTiles; ++i) {
    const Size& size = kCommonSizes[i];
    common_tiles_[i] = {size.m, Ceil(n_ / size.n),
                        size.m * size.n + c_.tile_loss * (size.m + size.n)};
  }
}

void GemmForm::SetUpTile(Tile& tile, double reference) const {
  const double flops_per_sm = peak_flops_ / sms_;
  const double speed =
      std::min(kFastestTile, reference / (1 + c_.tile_loss * (1 / tile.rows + 1 / tile.width)));
  tile.columns = Ceil(n_ / tile.width);
  tile.flops_per_s = flops_per_sm * speed;
  for (const double split : kSplitParts) {
    const double depth = Ceil(k_ / split / kDepth) * kDepth;
    if (depth * (split - 1) >= k_ && split > 1) return;
    tile.depths[tile.splits] = depth;
    tile.waves[tile.splits++] = WaveSeconds(tile, tile.rows, depth);
  }
}

double GemmForm::WaveSeconds(const Tile& tile, double tile_rows, double depth) const {
  return 2 * tile_rows * tile.width * depth / tile.flops_per_s + c_.wave_s;
}

double GemmForm::TrafficSeconds(double m, double x_bytes) const {
  const double activations = x_bytes + 2 * m * n_;
  const double cache = sms_ * c_.resident_bytes_per_s;
  const double in_cache_w =
      Resident(weight_bytes_ * c_.weight_copies + 2 * m * (n_ + k_), l2_bytes_);
  const double in_cache_a = Resident(2 * activations, l2_bytes_);
  const double cached = weight_bytes_ * in_cache_w + activations * in_cache_a;
  return (weight_bytes_ + activations - cached) / bandwidth_ + cached / cache;
}

GemmForm::Operands GemmForm::OperandsOf(double m) const {
  Operands operands;
  operands.m = m;
  operands.x_bytes = x_row_bytes_per_k_ * m * k_;
  operands.traffic_s = TrafficSeconds(m, operands.x_bytes);
  for (std::size_t i = 0; i < kSplits; ++i) {
    const double split = kSplitParts[i];
    operands.reductions[i] = split > 1 ? c_.split_s + 4 * m * n_ * split / l2_bytes_per_s_ : 0;
  }
  return operands;
}

GemmForm::Tilings GemmForm::TilingsOf(double m) const {
  const Operands operands = OperandsOf(m);
  Tilings tilings;
  for (const Tile& tile : tiles_) AddTilings(tile, operands, tilings);
  return tilings;
}

void GemmForm::AddTilings(const Tile& tile, const Operands& operands, Tilings& tilings) const {
  const double parts = operands.m / tile.rows;
  const double rows = std::max(1.0, parts + c_.row_rounding * (Ceil(parts) - parts));
  const double tile_rows = ComputedRows(format_, operands.m, tile.rows);
  const double again = (operands.x_bytes * tile.columns + weight_bytes_ * rows) / l2_bytes_per_s_;
  const double saturating = sms_ * c_.saturating_tiles;
  const bool whole = tile_rows == tile.rows;
  for (std::size_t i = 0; i < tile.splits; ++i) {
    const double tiles = rows * tile.columns * kSplitParts[i];
    const double waves = tiles / sms_;
    const double rounded = std::max(1.0, waves + c_.wave_rounding * (Ceil(waves) - waves));
    const double wave_s = whole ? tile.waves[i] : WaveSeconds(tile, tile_rows, tile.depths[i]);
    const double compute = rounded * wave_s;
    const double memory = operands.traffic_s / std::min(1.0, tiles / saturating);
    const double longest = std::max(std::max(compute, memory), again);
    const double least = longest + operands.reductions[i];
    if (least < tilings.least) {
      tilings.least = least;
      tilings.likely = tilings.count;
    }
    tilings.all[tilings.count++] = {compute, memory, again, longest, operands.reductions[i], least};
  }
}

// ln of the time that whole waves of whole tiles take, over the time of the same multiplications on
// an SM without edges.
double GemmForm::LogOfWholeWaves(double m) const {
  double least = std::numeric_limits<double>::infinity();
  for (const CommonTile& tile : common_tiles_) {
    const double waves = Ceil(Ceil(m / tile.rows) * tile.columns / sms_);
    least = std::min(least, waves * tile.work);
  }
  return std::log(least * sms_ / (m * n_));
}

double GemmForm::operator()(std::int64_t rows) const {
  const auto m = static_cast<double>(rows);
  const Tilings tilings = TilingsOf(m);
  // Powers are expensive: begin with the likely one, and leave out what cannot be faster.
  double best = tilings.all[tilings.likely].Seconds(c_.overlap);
  for (std::size_t i = 0; i < tilings.count; ++i) {
    const Tiling& tiling = tilings.all[i];
    if (i == tilings.likely || tiling.least >= best) continue;
    best = std::min(best, tiling.Seconds(c_.overlap));
  }
  const double quantize = c_.quantize_s + c_.quantize_passes * 2 * m * k_ / bandwidth_;
  const double seconds = best + c_.latency_s + quantize;
  if (c_.whole_waves == 0) return seconds;
  const double compute = 2 * m * n_ * k_ / peak_flops_;
  const double share = std::min(1.0, compute / seconds);
  return seconds * std::exp(c_.whole_waves * share * LogOfWholeWaves(m));
}

double GemmClosedForm(const HardwareSpec& hardware, const GemmCoefficients& coefficients,
                      const GemmShape& shape) {
  return GemmForm(hardware, coefficients, shape.n, shape.k, shape.format)(shape.m);
}

}  // namespace twin::sim
