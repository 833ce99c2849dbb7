// Pseudo-random numbers that are the same on every platform: one generator, own distributions.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace twin {

// The next value of splitmix64 (Steele, Lea, Flood, OOPSLA 2014); advances `state`.
std::uint64_t NextSplitMix64(std::uint64_t& state);

// One stream of random numbers: xoshiro256++ (Blackman and Vigna, ACM TOMS 2021), its state filled
// by splitmix64 from the seed and the stream's name. Streams of different names are independent, so
// a new consumer does not shift the numbers of the others. A copy continues the same sequence.
//
// Allocates nothing. Distributions use only +, -, *, / and log, exp, pow, sqrt of <cmath>; they are
// equal across platforms as far as these functions are.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view stream);

  // The generator in a given state, not all zero.
  static Random FromState(const std::array<std::uint64_t, 4>& state);

  // 64 uniform bits.
  std::uint64_t Next() {
    const std::uint64_t result = RotateLeft(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = RotateLeft(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1): a multiple of 2^-53.
  double UnitReal() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Uniform in [low, high). REQUIRES: low <= high.
  double UniformReal(double low, double high) { return low + (high - low) * UnitReal(); }

  // Uniform over low..high, both included, without bias (Lemire, ACM TOMACS 2019).
  // REQUIRES: low <= high.
  std::int64_t UniformInt(std::int64_t low, std::int64_t high);

  // Density exp(-x/mean)/mean, by inversion. REQUIRES: mean >= 0.
  double Exponential(double mean) { return -mean * std::log(1.0 - UnitReal()); }

  // Mean 0, standard deviation 1 (Marsaglia's polar method, which makes them in pairs).
  double Normal();

  // exp(mu + sigma * Normal()): median exp(mu), mean exp(mu + sigma^2 / 2).
  double LogNormal(double mu, double sigma) { return std::exp(mu + sigma * Normal()); }

  // Mean shape * scale, variance shape * scale^2 (Marsaglia and Tsang, ACM TOMS 2000; for shape
  // below 1 boosted by U^(1/shape)). REQUIRES: shape > 0, scale >= 0.
  double Gamma(double shape, double scale);

  // scale * (-log U)^(1/shape): mean scale * Gamma(1 + 1/shape). REQUIRES: shape > 0, scale >= 0.
  double Weibull(double shape, double scale) {
    return scale * std::pow(-std::log(1.0 - UnitReal()), 1.0 / shape);
  }

 private:
  Random() = default;
  static constexpr std::uint64_t RotateLeft(std::uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
  }

  std::array<std::uint64_t, 4> state_{};
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

// P(k) proportional to k^-exponent for k in 1..size, in O(1) memory and time (rejection-inversion:
// Hoermann and Derflinger, ACM TOMACS 1996).
class ZipfDistribution {
 public:
  // REQUIRES: size >= 1, exponent >= 0.
  ZipfDistribution(std::int64_t size, double exponent);
  std::int64_t Draw(Random& random) const;

 private:
  [[nodiscard]] double Integral(double x) const;
  [[nodiscard]] double IntegralInverse(double x) const;
  [[nodiscard]] double Density(double x) const;

  std::int64_t size_;
  double exponent_;
  double integral_first_;
  double integral_last_;
  double threshold_;
};

// A distribution given by points of its inverse CDF, linear between them.
class QuantileDistribution {
 public:
  // REQUIRES: equal sizes >= 1; probabilities rise strictly within [0, 1]; values do not fall.
  QuantileDistribution(std::span<const double> probabilities, std::span<const double> values);

  // The value at probability u in [0, 1]; outside the given points the nearest one.
  [[nodiscard]] double At(double u) const;
  double Draw(Random& random) const { return At(random.UnitReal()); }

 private:
  std::vector<double> probabilities_;
  std::vector<double> values_;
};

// Index i with probability weight[i] / sum. Cost: log of the number of weights.
class WeightedChoice {
 public:
  // REQUIRES: at least one weight; none negative or infinite; a positive sum.
  explicit WeightedChoice(std::span<const double> weights);
  std::size_t Draw(Random& random) const;

 private:
  std::vector<double> cumulative_;
};

}  // namespace twin
