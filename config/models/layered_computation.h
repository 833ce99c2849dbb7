// How models whose layers differ are computed, as their config.json says.
#pragma once

#include <string>

#include "config/models/config_fields.h"
#include "config/models/model_config.h"

namespace twin {

// The model types that ReadLayeredComputation() knows, as "deepseek_v2, deepseek_v3".
std::string ComputedLayeredNames();

// Fills in everything but the shape, which `model` has, and says in is_computed whether the family
// is known. Throws InputError (data) for fields that are missing, out of range, or of a value that
// the family does not have.
void ReadLayeredComputation(const ConfigFields& config, ModelConfig& model);

}  // namespace twin
