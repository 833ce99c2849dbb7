#include "sim/cost/step_cost.h"

#include <fmt/format.h>

#include "core/input_error.h"

namespace twin::sim {

void RefuseCost(std::string_view model, double seconds) {
  throw InputError(InputError::Kind::kUsage, std::string(model),
                   fmt::format("predicts {} s for one step; allowed: 0 to {} s; check its "
                               "coefficients and the size of the step",
                               seconds, kStepSecondsMax));
}

}  // namespace twin::sim
