// Rotary position embeddings: the angle by which each pair of a head is rotated per position.
#pragma once

#include <cstdint>
#include <vector>

#include "config/models/rope_config.h"

namespace twin::exec {

// Radians per position for the pairs 0 to dimensions / 2 - 1: theta^(-2i / dimensions), scaled.
// REQUIRES: an even number of dimensions; scaling of kNone, kLinear, kLlama3 or kYarn.
std::vector<double> InverseFrequencies(const RopeConfig& rope, std::int32_t dimensions);

}  // namespace twin::exec
