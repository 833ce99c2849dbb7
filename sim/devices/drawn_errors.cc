#include "sim/devices/drawn_errors.h"

#include "core/random.h"

namespace twin::sim {

DrawnErrors DrawErrors(std::uint64_t seed) {
  DrawnErrors errors;
  if (seed == 0) return errors;
  Random operations(seed, "cost operations");
  for (double& error : errors.operations) error = operations.Normal();
  Random terms(seed, "cost terms");
  for (double& error : errors.terms) error = terms.Normal();
  Random recorded(seed, "recorded steps");
  errors.recorded = recorded.Normal();
  errors.recorded_prompts = recorded.Normal();
  Random boundary(seed, "boundary terms");
  errors.boundary = boundary.Normal();
  errors.boundary_variation = boundary.Normal();
  return errors;
}

std::vector<std::string_view> ErrorNames() {
  std::vector<std::string_view> names(kOperationClassNames.begin(), kOperationClassNames.end());
  for (const StepTermField& field : kStepTermFields) names.push_back(field.name);
  names.insert(names.end(), {"recorded_decode_steps", "recorded_prompt_steps", "boundary",
                             "boundary_variation"});
  return names;
}

std::vector<double> Variates(const DrawnErrors& errors) {
  std::vector<double> variates(errors.operations.begin(), errors.operations.end());
  variates.insert(variates.end(), errors.terms.begin(), errors.terms.end());
  variates.insert(variates.end(), {errors.recorded, errors.recorded_prompts, errors.boundary,
                                   errors.boundary_variation});
  return variates;
}

}  // namespace twin::sim
