// The configs that executors compute, out of all that can be read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/models/model_config.h"

namespace twin::exec {

using twin::ModelConfig;

// Reads the config.json of a model directory (config/models/hf_config.h) for computing the model.
// `path` is the directory or the file. Throws InputError (data), one line: what ReadHfConfig
// refuses, and quantised weights, configs nested in text_config, the rope types dynamic and
// longrope, and GPT-2's scale_attn_by_inverse_layer_idx, which are not computed. Mixtures of
// experts are computed on CPUs alone.
ModelConfig ReadModelConfig(const std::filesystem::path& path);

// The same from the text of a config.json, without a name; `where` stands for the file in errors.
ModelConfig ParseModelConfig(std::string_view text, const std::string& where);

}  // namespace twin::exec
