// Rotary position embeddings as config.json describes them.
#pragma once

#include <cstdint>

#include "config/models/config_fields.h"

namespace twin {

struct ModelFamily;

struct RopeConfig {
  // For kDynamic and kLongRope only the fields that lengthen the context are read: no executor
  // computes them, and they cost as much as any other scaling.
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kDynamic, kLongRope };

  double theta = 10000;  // base of the frequencies
  Scaling scaling = Scaling::kNone;
  double factor = 1;  // ratio of the extended to the original context, for kinds that have one
  // Whether the scaling itself has original_max_position_embeddings.
  bool names_original = false;
  // Llama 3: wavelengths below original / high_factor are kept, wavelengths above original /
  // low_factor are stretched by `factor`, and the ones between are interpolated.
  double low_factor = 1;
  double high_factor = 4;
  double original_positions = 0;  // before the extension; also for YaRN and LongRoPE
  // YaRN: interpolates between these numbers of rotations within the original context.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncates = true;  // round the limits of the interpolation to whole pairs
  double magnitude = 1;   // factor of cosines and sines

  bool operator==(const RopeConfig&) const = default;
};

// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (transformers 5).
// Throws InputError (data) for an unknown type and for fields that are missing or out of range.
RopeConfig ReadRopeConfig(const ConfigFields& config, const ModelFamily& family,
                          std::int32_t max_position);

// Reads how positions are scaled, and nothing else: all that servers read for the length of a
// context. Types that are not known scale nothing.
RopeConfig ReadContextScaling(const ConfigFields& config, std::int32_t max_position);

// Leading dimensions of a head that are rotated: head_dim * partial_rotary_factor, which is
// `absent` if it is left out. Throws InputError (data) unless that is an even number of at least 2.
std::int32_t ReadRotaryDimensions(const ConfigFields& config, std::int32_t head_dim,
                                  double absent = 1);

}  // namespace twin
