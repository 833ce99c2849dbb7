// Rotary embeddings as config.json describes them.
#pragma once

#include <cstdint>

#include "exec/model/config_fields.h"
#include "exec/model/rope.h"

namespace twin::exec {

// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (5); types default, linear,
// llama3 and yarn. Throws InputError (data) for any other type and for fields that are missing or
// out of range.
RopeConfig ReadRopeConfig(const ConfigFields& config, std::int32_t max_position);

// Leading dimensions of a head that turn: head_dim * partial_rotary_factor.
std::int32_t ReadRotaryDimensions(const ConfigFields& config, std::int32_t head_dim);

}  // namespace twin::exec
