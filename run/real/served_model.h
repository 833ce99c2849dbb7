// A model that is to be computed, as experiments and commands name it.
#pragma once

#include <filesystem>
#include <string>

#include "config/models/model_config.h"

namespace twin::run {

struct ComputedModel {
  ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty: dummy weights
};

struct ModelArgument {
  std::string option;  // names the argument in errors: "--model", "system.model"
  // A model directory, the path of its config.json, or with dummy weights the name of a preset.
  std::string model;
  bool dummy_weights = false;
  std::string dummy_option = {};  // how the user asks for dummy weights; empty: not offered
};

// The one way from a model's name to a model for `run`, `generate`, `bench` and `profile`. Reads
// the config, not the weights. A preset is computed as its family usually is
// (exec/model/shape_config.h).
// Throws InputError: a preset where weights are needed, a config file of another name (usage); a
// missing or damaged config, a directory that lacks weights, a model that is not computed (data).
ComputedModel ReadServedModel(const ModelArgument& argument);

}  // namespace twin::run
