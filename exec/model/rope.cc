#include "exec/model/rope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "core/check.h"

namespace twin::exec {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Dubey et al., "The Llama 3 Herd of Models", as in the released code: the factor stretches long
// wavelengths and leaves short ones; wavelengths between are blended.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double wavelength = kTurn / frequency;
  if (wavelength < rope.original_positions / rope.high_factor) return frequency;
  if (wavelength > rope.original_positions / rope.low_factor) return frequency / rope.factor;
  const double blend = (rope.original_positions / wavelength - rope.low_factor) /
                       (rope.high_factor - rope.low_factor);
  return (1 - blend) * frequency / rope.factor + blend * frequency;
}

// The index, as a real number, of the pair that turns `rotations` times within the original
// context.
double PairOfRotations(const RopeConfig& rope, double rotations, double dimensions) {
  return dimensions * std::log(rope.original_positions / (rotations * kTurn)) /
         (2 * std::log(rope.theta));
}

// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", section 3.2.
void ApplyYarn(const RopeConfig& rope, double dimensions, std::vector<double>& frequencies) {
  double low = PairOfRotations(rope, rope.beta_fast, dimensions);
  double high = PairOfRotations(rope, rope.beta_slow, dimensions);
  if (rope.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dimensions - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / rope.factor + (1 - stretched);
  }
}

}  // namespace

std::vector<double> InverseFrequencies(const RopeConfig& rope, std::int32_t dimensions) {
  CHECK(dimensions > 0 && dimensions % 2 == 0);
  std::vector<double> frequencies(static_cast<std::size_t>(dimensions / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / dimensions);
  }
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      break;
    case RopeConfig::Scaling::kLinear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case RopeConfig::Scaling::kLlama3:
      for (double& frequency : frequencies) frequency = Llama3Frequency(rope, frequency);
      break;
    case RopeConfig::Scaling::kYarn:
      ApplyYarn(rope, dimensions, frequencies);
      break;
    case RopeConfig::Scaling::kDynamic:
    case RopeConfig::Scaling::kLongRope:
      CHECK(false);  // refused when the config is read
  }
  return frequencies;
}

}  // namespace twin::exec
