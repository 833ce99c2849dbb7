// Finds a model to compute by the name that experiments and commands give it.
#pragma once

#include <filesystem>
#include <string>

#include "config/models/model_config.h"

namespace twin::run {

struct ComputedModel {
  ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty = dummy weights
};

struct ModelArgument {
  std::string option;  // names the argument in errors: "--model", "system.model"
  // A model directory, the path of its config.json, or with dummy weights the name of a preset.
  std::string model;
  bool dummy_weights = false;
  std::string dummy_option = {};  // how the user asks for dummy weights; empty = not offered
};

// Finds the model of that name; `run`, `generate`, `bench` and `profile` use no other way. Reads
// the config, not the weights. A preset is computed as its family usually is
// (exec/model/model_config.h).
// Throws InputError for a preset if weights are needed and for a config file of another name
// (usage), and for a missing or damaged config, a directory without weights, and a model that
// cannot be computed (data).
ComputedModel ReadServedModel(const ModelArgument& argument);

}  // namespace twin::run
