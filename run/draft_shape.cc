#include "run/draft_shape.h"

#include <variant>

#include "config/models/named_model.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

bool HasDraftModel(const ExperimentConfig& config) {
  return config.speculation && config.speculation->rules.on() &&
         !config.speculation->draft_model.empty();
}

}  // namespace

std::optional<ModelSpec> DraftShapeOf(const ExperimentConfig& config) {
  if (!HasDraftModel(config)) return std::nullopt;
  const SpeculationConfig& speculation = *config.speculation;
  ModelSpec draft = speculation.draft_shape ? *speculation.draft_shape
                                            : ReadNamedShape(speculation.draft_model, false);
  draft.kv_dtype = config.system.model_spec.kv_dtype;
  Validate(draft, {.tensor = config.system.parallelism.tensor});
  return draft;
}

bool HasDraftCost(const sim::CostConfig& cost) {
  return std::holds_alternative<sim::RooflineCostConfig>(cost) ||
         std::holds_alternative<sim::ProfileCostConfig>(cost);
}

void RequireDraftCost(const ExperimentConfig& config) {
  if (!HasDraftModel(config) || HasDraftCost(config.cost)) return;
  if (config.speculation->propose > Duration{0}) return;
  throw InputError(InputError::Kind::kUsage, "speculation.model",
                   "has no cost in this cost model; allowed with: roofline, profile; otherwise "
                   "set speculation.propose_s");
}

}  // namespace twin::run
