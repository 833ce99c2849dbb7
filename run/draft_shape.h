// The draft model that an experiment names (speculation.model).
#pragma once

#include <optional>

#include "config/experiment_config.h"
#include "core/model_spec.h"

namespace twin::run {

// Its shape, with weights in its own format and keys and values in that of the served model's;
// nullopt if there is none. Reads its config.json, unless SpeculationConfig::draft_shape holds what
// that says. Throws InputError: an unknown preset, a shape
// that the tensor parallelism does not divide (usage); hf_config.h (data).
std::optional<ModelSpec> DraftShapeOf(const ExperimentConfig& config);

// Throws InputError (usage) where nothing says how long the steps of the draft model take: neither
// the cost model nor speculation.propose_s.
void RequireDraftCost(const ExperimentConfig& config);

}  // namespace twin::run
