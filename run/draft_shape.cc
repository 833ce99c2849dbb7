#include "run/draft_shape.h"

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

void RequireDraftCost(const ExperimentConfig& config) {
  if (!HasDraftModel(config) || sim::TraitsOf(config.cost).prices_drafts) return;
  if (config.speculation->propose > Duration{0}) return;
  throw InputError(InputError::Kind::kUsage, "speculation.model",
                   "has no cost in this cost model; allowed with: roofline, profile; otherwise "
                   "set speculation.propose_s");
}

}  // namespace twin::run
