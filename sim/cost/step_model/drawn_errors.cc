#include "sim/cost/step_model/drawn_errors.h"

#include "core/random.h"

namespace twin::sim {

DrawnErrors DrawErrors(std::uint64_t seed) {
  DrawnErrors errors;
  if (seed == 0) return errors;
  Random operations(seed, "cost operations");
  for (double& error : errors.operations) error = operations.Normal();
  Random terms(seed, "cost terms");
  for (double& error : errors.terms) error = terms.Normal();
  errors.recorded = Random(seed, "recorded steps").Normal();
  return errors;
}

std::vector<std::string_view> ErrorNames() {
  std::vector<std::string_view> names(kOperationClassNames.begin(), kOperationClassNames.end());
  for (const StepTermField& field : kStepTermFields) names.push_back(field.name);
  names.push_back("recorded_steps");
  return names;
}

std::vector<double> Variates(const DrawnErrors& errors) {
  std::vector<double> variates(errors.operations.begin(), errors.operations.end());
  variates.insert(variates.end(), errors.terms.begin(), errors.terms.end());
  variates.push_back(errors.recorded);
  return variates;
}

}  // namespace twin::sim
