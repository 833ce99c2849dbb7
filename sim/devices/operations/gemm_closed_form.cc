#include "sim/devices/operations/gemm_closed_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace twin::sim {
namespace {

constexpr double kNoSplit = std::numeric_limits<double>::infinity();

struct Size {
  double m;
  double n;
};

constexpr Size kTileSizes[] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128},
                               {64, 256},  {64, 64},   {64, 32},   {32, 64},   {16, 64},  {16, 32}};
// Tiles by which the fill of a product's waves is judged: the best of them counts.
constexpr Size kCommonSizes[] = {{128, 256}, {256, 128}, {128, 128}, {64, 256},
                                 {64, 128},  {128, 64},  {64, 64}};
constexpr std::array<double, 6> kSplitParts = {1, 2, 4, 8, 16, kNoSplit};
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
  return format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block ||
                 format == GemmFormat::kMxfp4Fp8
             ? 1
             : 2;
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
    case GemmFormat::kMxfp4:
    case GemmFormat::kMxfp4Fp8:
      return 0.5 + 1.0 / 32;  // a scale of 8 bits for 32 weights
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

// Two numbers that are computed at once. Operators take them one by one.
using Pair = double __attribute__((vector_size(16)));

Pair Both(double x) { return Pair{x, x}; }
Pair Load(const double* from) { return Pair{from[0], from[1]}; }
void Store(const Pair& pair, double* to) {
  to[0] = pair[0];
  to[1] = pair[1];
}
Pair Max(const Pair& a, const Pair& b) { return a < b ? b : a; }
Pair Min(const Pair& a, const Pair& b) { return b < a ? b : a; }

// Adding and subtracting kInteger rounds to the nearest integer. REQUIRES: 0 <= x < 2^51, or
// infinite.
Pair Ceil(const Pair& x) {
  constexpr double kInteger = 0x1p52;
  const Pair nearest = (x + kInteger) - kInteger;
  return nearest + (nearest < x ? Both(1) : Both(0));
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
  if (format == GemmFormat::kFp4 && hardware.peak_fp4_flops > 0) return hardware.peak_fp4_flops;
  const bool is_fp8 = format == GemmFormat::kFp8 || format == GemmFormat::kFp8Block ||
                      format == GemmFormat::kMxfp4Fp8;
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

// Seconds of all tilings, by tile and split.
struct GemmForm::Tilings {
  std::array<double, kTiles> again;  // operands that tiles read again
  std::array<double, kTiles * kSplits> compute;
  std::array<double, kTiles * kSplits> memory;
  std::array<double, kTiles * kSplits> least;  // the longest of the three, and the reduction

  [[nodiscard]] double Seconds(std::size_t i, double reduction, double overlap) const {
    const double read = again[i / kSplits];
    const double longest = std::max(std::max(compute[i], memory[i]), read);
    return longest *
               std::pow(Power(compute[i] / longest, overlap) + Power(memory[i] / longest, overlap) +
                            Power(read / longest, overlap),
                        1 / overlap) +
           reduction;
  }
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
                kSplitParts.size() == kSplits);
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
  tile.depths.fill(kNoSplit);
  for (std::size_t i = 0; i < kSplits; ++i) {
    const double split = kSplitParts[i];
    const double depth = split == kNoSplit ? kNoSplit : Ceil(k_ / split / kDepth) * kDepth;
    // No part is left empty.
    if (depth * (split - 1) >= k_ && split > 1) break;
    tile.depths[i] = depth;
  }
  tile.waves = WaveSeconds(tile, tile.rows);
}

std::array<double, GemmForm::kSplits> GemmForm::WaveSeconds(const Tile& tile,
                                                            double tile_rows) const {
  std::array<double, kSplits> seconds;
  for (std::size_t i = 0; i < kSplits; ++i) {
    seconds[i] = 2 * tile_rows * tile.width * tile.depths[i] / tile.flops_per_s + c_.wave_s;
  }
  return seconds;
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

void GemmForm::SetTilings(std::size_t index, const Operands& operands, Tilings& tilings) const {
  const Tile& tile = tiles_[index];
  const double parts = operands.m / tile.rows;
  const double rows = std::max(1.0, parts + c_.row_rounding * (Ceil(parts) - parts));
  const double tile_rows = ComputedRows(format_, operands.m, tile.rows);
  const std::array<double, kSplits> waves_s =
      tile_rows == tile.rows ? tile.waves : WaveSeconds(tile, tile_rows);
  const double again = (operands.x_bytes * tile.columns + weight_bytes_ * rows) / l2_bytes_per_s_;
  const double saturating = sms_ * c_.saturating_tiles;
  tilings.again[index] = again;
  for (std::size_t i = 0; i < kSplits; i += 2) {
    const std::size_t at = index * kSplits + i;
    const Pair tiles = rows * tile.columns * Load(&kSplitParts[i]);
    const Pair waves = tiles / sms_;
    const Pair rounded = Max(Both(1), waves + c_.wave_rounding * (Ceil(waves) - waves));
    const Pair compute = rounded * Load(&waves_s[i]);
    const Pair memory = operands.traffic_s / Min(Both(1), tiles / saturating);
    const Pair longest = Max(Max(compute, memory), Both(again));
    Store(compute, &tilings.compute[at]);
    Store(memory, &tilings.memory[at]);
    Store(longest + Load(&operands.reductions[i]), &tilings.least[at]);
  }
}

double GemmForm::BestSeconds(double m) const {
  const Operands operands = OperandsOf(m);
  Tilings tilings;
  Pair least = Both(kNoSplit);
  for (std::size_t tile = 0; tile < kTiles; ++tile) {
    SetTilings(tile, operands, tilings);
    const double* const of_tile = &tilings.least[tile * kSplits];
    for (std::size_t i = 0; i < kSplits; i += 2) least = Min(least, Load(of_tile + i));
  }
  const auto seconds = [&](std::size_t i) {
    return tilings.Seconds(i, operands.reductions[i % kSplits], c_.overlap);
  };
  // Powers are expensive: begin with the likely one, and leave out what cannot be faster.
  const auto likely = static_cast<std::size_t>(
      std::ranges::find(tilings.least, std::min(least[0], least[1])) - tilings.least.begin());
  double best = seconds(likely);
  for (std::size_t i = 0; i < tilings.least.size(); ++i) {
    if (tilings.least[i] < best && i != likely) best = std::min(best, seconds(i));
  }
  return best;
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
  const double quantize = c_.quantize_s + c_.quantize_passes * 2 * m * k_ / bandwidth_;
  const double seconds = BestSeconds(m) + c_.latency_s + quantize;
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
