// Makes a computable configuration for a model of which only the shape is known, as for presets.
#pragma once

#include "core/model_spec.h"
#include "exec/model/model_config.h"

namespace twin::exec {

// Chooses the family whose models have such a shape. Fields that a shape lacks (activation, norm
// epsilon, rotary base) get the family's usual values; there are no end-of-sequence tokens. Meant
// for dummy weights.
// Throws InputError (usage) if no family that can be computed has the shape.
ModelConfig ConfigOfShape(const ModelSpec& shape);

}  // namespace twin::exec
