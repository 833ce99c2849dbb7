// Rotary position embeddings: which angle each pair of a head turns by per position.
#pragma once

#include <cstdint>
#include <vector>

namespace twin::exec {

struct RopeConfig {
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn };

  double theta = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;  // by which the context was extended
  // Llama 3: wavelengths below original / high_factor stay, above original / low_factor stretch.
  double low_factor = 1;
  double high_factor = 4;
  double original_positions = 0;
  // YaRN: rotations within the original context between which the two are blended.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncates = true;  // the blend's borders are rounded to whole pairs
  // Multiplies cosines and sines.
  double magnitude = 1;

  bool operator==(const RopeConfig&) const = default;
};

// Radians per position of pairs 0 .. dimensions / 2 - 1: theta^(-2i / dimensions), scaled.
// REQUIRES: an even number of dimensions.
std::vector<double> InverseFrequencies(const RopeConfig& rope, std::int32_t dimensions);

}  // namespace twin::exec
