#include "config/cost_file.h"

#include "config/cost.bind.h"
#include "config/cost.pb.h"
#include "config/overlay.h"
#include "config/text_message.h"
#include "core/input_error.h"

namespace twin {

sim::FittedCostConfig ReadFittedCostFile(const std::filesystem::path& path) {
  proto::FittedCost message;
  ParseText(ReadTextFile(path), {path.string()}, message);
  CheckRules(message, path.string());
  if (message.has_path()) {
    throw InputError(InputError::Kind::kUsage, path.string(),
                     "path: can only stand in an experiment; allowed here: coefficients");
  }
  sim::FittedCostConfig config;
  FromMessage fields(message);
  Bind(fields, config);
  return config;
}

std::string WriteFittedCost(const sim::FittedCostConfig& config) {
  proto::FittedCost message;
  sim::FittedCostConfig copy = config;
  ToMessage fields(message);
  Bind(fields, copy);
  return PrintText(message);
}

}  // namespace twin
