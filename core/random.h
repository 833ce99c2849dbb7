// Reproducible pseudo-random numbers: one generator, and distributions that do not depend on the
// standard library's implementations.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace twin {

// The next value of splitmix64 (Steele, Lea, Flood, OOPSLA 2014); advances `state`.
std::uint64_t NextSplitMix64(std::uint64_t& state);

// A stream of random numbers: xoshiro256++ (Blackman and Vigna, ACM TOMS 2021), with its state
// filled by splitmix64 from the seed and the stream's name. Streams with different names are
// independent, so that a new consumer does not shift the numbers of existing ones. A copy continues
// the same sequence.
//
// Allocates no memory. Distributions use only +, -, *, / and log, exp, pow, sqrt of <cmath>; their
// results are equal on two platforms if these functions are.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view stream);

  // A generator with the given state. REQUIRES: the state is not all zero.
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

  // Exponential: density exp(-x/mean)/mean, by inversion. REQUIRES: mean >= 0.
  double Exponential(double mean) { return -mean * std::log(1.0 - UnitReal()); }

  // Normal: mean 0, standard deviation 1 (Marsaglia's polar method). The method generates numbers
  // in pairs; the second one is kept for the next call.
  double Normal();

  // exp(mu + sigma * Normal()): median exp(mu), mean exp(mu + sigma^2 / 2).
  double LogNormal(double mu, double sigma) { return std::exp(mu + sigma * Normal()); }

  // Gamma: mean shape * scale, variance shape * scale^2 (Marsaglia and Tsang, ACM TOMS 2000; for
  // shape < 1, boosted by U^(1/shape)). REQUIRES: shape > 0, scale >= 0.
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

// Zipf's law: P(k) proportional to k^-exponent for k in 1..size. Memory and time are O(1)
// (rejection-inversion: Hoermann and Derflinger, ACM TOMACS 1996).
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

// A distribution given by points of its inverse CDF, with linear interpolation between them.
class QuantileDistribution {
 public:
  // REQUIRES: equal sizes >= 1; probabilities rise strictly within [0, 1]; values never decrease.
  QuantileDistribution(std::span<const double> probabilities, std::span<const double> values);

  // The value at probability u in [0, 1]. Outside the given points: the nearest point's value.
  [[nodiscard]] double At(double u) const;
  double Draw(Random& random) const { return At(random.UnitReal()); }

 private:
  std::vector<double> probabilities_;
  std::vector<double> values_;
};

// Draws index i with probability weights[i] / sum. Cost: logarithmic in the number of weights.
class WeightedChoice {
 public:
  // REQUIRES: at least one weight; none negative or infinite; a positive sum.
  explicit WeightedChoice(std::span<const double> weights);
  std::size_t Draw(Random& random) const;

 private:
  std::vector<double> cumulative_;
};

// A distribution of pauses or delays.
struct DurationDistribution {
  enum class Kind : std::uint8_t {
    kConstant,     // mean
    kExponential,  // mean
    kLogNormal,    // mean, and the coefficient of variation cv
  };
  Kind kind = Kind::kConstant;
  Duration mean{0};
  double cv = 1;

  bool operator==(const DurationDistribution&) const = default;
};

// A draw, cut at 126 years. REQUIRES: mean and cv are not negative.
Duration DrawDuration(const DurationDistribution& config, Random& random);

}  // namespace twin
