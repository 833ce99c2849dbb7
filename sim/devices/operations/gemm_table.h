// Reads tables of measured matrix products: encoded curves, and interpolation along them.
//
// A curve holds, for each measured m, the logarithm of measured over closed-form time. The closed
// form takes out size, tiles and waves; what remains varies slowly enough between neighbouring
// (n, k) (gemm_kriging.h) and m to be interpolated by kriging. Along m the covariance depends on m
// itself and on m rounded up to tiles of 64 and 128 rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/kriging.h"

namespace twin::sim {

// One printable character per value: the step from the value before it, of 0.6 % for small steps
// and larger for large ones (companding). A step beyond +-1.5 is cut, and made up for by the next.
std::string EncodeGemmCurve(std::span<const double> log_ratios);
// REQUIRES: IsGemmCurve(text).
std::vector<double> DecodeGemmCurve(std::string_view text);
bool IsGemmCurve(std::string_view text);

// The curves of a table as a profile holds them: all curves of one n in one text, with spaces.
std::vector<std::string> JoinGemmCurves(const GemmTable& table);
// Texts of any number of curves each.
std::vector<std::string> SplitGemmCurves(std::span<const std::string> texts);

// An interpolated value of a curve.
struct GemmRatio {
  double log_ratio = 0;
  double variance = 0;  // of kriging; 0 at a measured point
};

// Interpolates the curves of one table along m. The weights of the measured m depend on m alone;
// they are computed once for each of the first kRememberedMax values of m asked for. Callable from
// several threads.
class GemmTokenWeights {
 public:
  // About 400 bytes each.
  static constexpr std::size_t kRememberedMax = 16384;

  // `m`: the table's.
  explicit GemmTokenWeights(const std::vector<std::uint32_t>& m);

  [[nodiscard]] GemmRatio RatioAt(std::span<const double> log_ratios, std::int64_t m) const;
  // Without what was measured at m, for judging. Remembers nothing.
  [[nodiscard]] GemmRatio RatioWithout(std::span<const double> log_ratios, std::int64_t m) const;
  // Values of m whose weights are remembered.
  [[nodiscard]] std::size_t size() const;

 private:
  // m itself, and m rounded up to tiles, in octaves.
  using Places = std::array<double, 3>;

  static Places PlacesOf(std::int64_t m);
  static double Covariance(const Places& a, const Places& b);
  // Weights of the measured m, by position on the axis.
  [[nodiscard]] KrigingWeights WeightsOf(std::int64_t m, bool excluded) const;

  std::vector<std::uint32_t> m_;
  std::vector<Places> places_;   // of the measured m
  std::vector<double> between_;  // covariances of measured m that one window holds
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, KrigingWeights> known_;
};

// A curve of `table` without `trend_share` of a curve of its trend: what is left to interpolate.
// `tokens`: of the trend's table.
std::vector<double> WithoutTrend(const GemmTable& table, std::span<const double> log_ratios,
                                 const GemmTokenWeights& tokens, std::span<const double> trend);

// The position of `value` on an axis of a table; none if nothing was measured there.
std::optional<std::size_t> IndexOf(const std::vector<std::uint32_t>& axis, std::int64_t value);

// The range of m that GemmTable's standard deviations are given for.
constexpr std::size_t GemmRangeOf(std::int64_t m) { return m <= 128 ? 0 : m <= 1024 ? 1 : 2; }

}  // namespace twin::sim
