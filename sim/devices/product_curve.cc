#include "sim/devices/product_curve.h"

#include <utility>

namespace twin::sim {
namespace {

constexpr std::int64_t kFewRows = 128;
constexpr std::int64_t kFewRowsStep = 16;
constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTilesBeyond = 2;
// Places of the sizes that are remembered: multiples of 16 up to kFewRows, then each multiple of a
// tile and the size after it.
constexpr std::int64_t kFirstTilePlace = kFewRows / kFewRowsStep + 1;
constexpr std::size_t kPlaces = 2 * 128 + static_cast<std::size_t>(kFirstTilePlace);

}  // namespace

ProductCurve::ProductCurve(GemmCurve curve) : curve_(std::move(curve)), places_(kPlaces) {}

ProductCurve::ProductCurve(GemmCurve curve, GemmCurve in_16_bits, double share)
    : curve_(std::move(curve)),
      in_16_bits_(std::move(in_16_bits)),
      share_(share),
      places_(kPlaces) {}

TimeEstimate ProductCurve::Time(std::int64_t rows) const {
  const TimeEstimate own = curve_.EstimateFromMemory(rows);
  if (!in_16_bits_) return own;
  constexpr double kHalfLaunch = 1.5e-6;
  TimeEstimate converted = in_16_bits_->EstimateFromMemory(rows);
  converted.seconds = share_ * converted.seconds + kHalfLaunch;
  return converted.seconds < own.seconds ? converted : own;
}

TimeEstimate ProductCurve::At(std::int64_t place, std::int64_t rows) const {
  return places_.At(place, [&](std::int64_t) { return Time(rows); });
}

TimeEstimate ProductCurve::operator()(std::int64_t rows) const {
  TimeEstimate best = Time(rows);
  const auto consider = [&](std::int64_t place, std::int64_t m) {
    const TimeEstimate other = At(place, m);
    if (other.seconds < best.seconds) best = other;
  };
  for (std::int64_t i = rows / kFewRowsStep + 1; i * kFewRowsStep <= kFewRows; ++i) {
    consider(i, i * kFewRowsStep);
  }
  if (rows <= kFewRows) return best;
  const std::int64_t next = (rows + kTileRows - 1) / kTileRows;
  for (std::int64_t tile = next; tile <= next + kTilesBeyond; ++tile) {
    consider(kFirstTilePlace + 2 * tile, tile * kTileRows);
    consider(kFirstTilePlace + 2 * tile + 1, tile * kTileRows + 1);
  }
  return best;
}

}  // namespace twin::sim
