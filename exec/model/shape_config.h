// A model of which nothing but the shape is known: enough to compute as much as the real one does.
#pragma once

#include "core/model_spec.h"
#include "exec/model/model_config.h"

namespace twin::exec {

// Of the family whose models have such a shape; what a shape does not say (activation, epsilon,
// rotary base) is that family's usual value, and there are no end tokens. For dummy weights.
// Throws InputError (usage) where no family that can be computed has the shape.
ModelConfig ConfigOfShape(const ModelSpec& shape);

}  // namespace twin::exec
