#include "run/draft_model_spec.h"

#include <fmt/format.h>

#include "config/models/named_model.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

bool HasDraftModel(const ExperimentConfig& config) {
  if (!config.speculation || !config.speculation->rules.on()) return false;
  const SpeculationConfig& speculation = *config.speculation;
  return speculation.rules.method == SpecMethod::kMtp || !speculation.draft_model.empty();
}

ModelSpec ReadDraft(const ExperimentConfig& config) {
  const SpeculationConfig& speculation = *config.speculation;
  if (speculation.rules.method == SpecMethod::kMtp) return MtpModule(config.system.model_spec);
  return speculation.draft_shape ? *speculation.draft_shape
                                 : ReadNamedShape(speculation.draft_model, false);
}

}  // namespace

std::optional<ModelSpec> DraftShapeOf(const ExperimentConfig& config) {
  if (!HasDraftModel(config)) return std::nullopt;
  ModelSpec draft = ReadDraft(config);
  draft.kv_dtype = config.system.model_spec.kv_dtype;
  Validate(draft, {.tensor = config.system.parallelism.tensor});
  return draft;
}

void RequireDraftCost(const ExperimentConfig& config) {
  if (!HasDraftModel(config) || sim::TraitsOf(config.cost).prices_drafts) return;
  if (config.speculation->propose > Duration{0}) return;
  const bool is_module = config.speculation->rules.method == SpecMethod::kMtp;
  throw InputError(InputError::Kind::kUsage, is_module ? "speculation.method" : "speculation.model",
                   fmt::format("has no cost in this cost model; allowed with: {}profile; otherwise "
                               "set speculation.propose_s",
                               is_module ? "" : "roofline, "));
}

}  // namespace twin::run
