// The model that proposes the drafts of an experiment: the draft model that it names
// (speculation.model), or the served model's module of multi-token prediction.
#pragma once

#include <optional>

#include "config/experiment_config.h"
#include "core/model_spec.h"

namespace twin::run {

// Spec of the draft model, with weights in its own number format and keys and values in the served
// model's; nullopt without a draft model. Reads its config.json, unless it was read before into
// SpeculationConfig::draft_shape. Throws InputError: an unknown preset, or a shape that the tensor
// parallelism does not divide (usage); as hf_config.h (data).
std::optional<ModelSpec> DraftShapeOf(const ExperimentConfig& config);

// Throws InputError (usage) if neither the cost model nor speculation.propose_s says how long the
// steps of the draft model take.
void RequireDraftCost(const ExperimentConfig& config);

}  // namespace twin::run
