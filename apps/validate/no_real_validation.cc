#include "apps/missing_command.h"
#include "apps/validate/real_validation.h"

namespace twin::apps {

bool RunsAlone() { return true; }

void ValidateReal(const RealValidation& /*asked*/, CommandContext& /*context*/) {
  throw NotBuilt("validate: EXPERIMENT, a run of a model", "TWIN_EXEC");
}

}  // namespace twin::apps
