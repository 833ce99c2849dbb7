#include "run/real/served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/models/model_names.h"
#include "config/models/named_model.h"
#include "core/input_error.h"
#include "exec/model/model_config.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const ModelArgument& argument, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, argument.option, what);
}

bool IsPreset(const std::string& model) {
  const auto names = ModelPresetNames();
  return !NamesModelPath(model) && std::find(names.begin(), names.end(), model) != names.end();
}

bool HoldsWeights(const fs::path& directory) {
  return fs::exists(directory / "model.safetensors") ||
         fs::exists(directory / "model.safetensors.index.json");
}

std::string AllowedWeights(const ModelArgument& argument) {
  return fmt::format(
      "allowed: a model directory with model.safetensors or model.safetensors.index.json{}{}",
      argument.dummy_option.empty() ? "" : ", or ", argument.dummy_option);
}

ComputedModel ReadPreset(const ModelArgument& argument) {
  if (argument.dummy_weights) return {exec::ConfigOfShape(ModelPreset(argument.model)), {}};
  Refuse(argument, fmt::format("{} is a preset, without weights; {}", argument.model,
                               AllowedWeights(argument)));
}

}  // namespace

ComputedModel ReadServedModel(const ModelArgument& argument) {
  const fs::path path = argument.model;
  if (!fs::exists(path) && IsPreset(argument.model)) return ReadPreset(argument);
  ComputedModel served{exec::ReadModelConfig(path), {}};
  if (!fs::is_directory(path) && path.filename() != "config.json") {
    Refuse(argument, fmt::format("{} is not named config.json; allowed: a model directory, or the "
                                 "path of its config.json",
                                 argument.model));
  }
  const fs::path directory = fs::is_directory(path) ? path : fs::absolute(path).parent_path();
  if (argument.dummy_weights) return served;
  if (!HoldsWeights(directory)) {
    throw InputError(InputError::Kind::kData, argument.option,
                     fmt::format("{} is a model directory without weights; {}", argument.model,
                                 AllowedWeights(argument)));
  }
  served.weights = directory;
  return served;
}

}  // namespace twin::run
