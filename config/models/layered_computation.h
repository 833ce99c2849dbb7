// How models whose layers differ are computed, as their config.json says.
#pragma once

#include "config/models/config_fields.h"
#include "config/models/model_config.h"

namespace twin {

struct ModelFamily;

// Fills in everything but the shape, which `model` has, and says in is_computed whether the family
// has a computation. Throws InputError (data) for fields that are missing, out of range, or of a
// value that the family does not have. REQUIRES: family.is_layered().
void ReadLayeredComputation(const ConfigFields& config, const ModelFamily& family,
                            ModelConfig& model);

// The parts that families add: ModelFamily::read_computation.
void ReadDeepSeekV2Computation(const ConfigFields& config, ModelConfig& model);
void ReadDeepSeekV3Computation(const ConfigFields& config, ModelConfig& model);
void ReadGptOssComputation(const ConfigFields& config, ModelConfig& model);
void ReadQwenHybridComputation(const ConfigFields& config, ModelConfig& model);
void ReadOlmo2Computation(const ConfigFields& config, ModelConfig& model);
void ReadMiniMaxM2Computation(const ConfigFields& config, ModelConfig& model);

}  // namespace twin
