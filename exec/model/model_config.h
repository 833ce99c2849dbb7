// The model configurations that executors can compute: read from a config.json, or made from a
// shape.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/models/model_config.h"
#include "core/model_spec.h"

namespace twin::exec {

using twin::ModelConfig;

// True for equal layers with attention over the keys and values of heads, as llama and its
// relatives have: the models that every device computes, with weights of all of its formats, and
// whose operations are profiled. The others are computed on CPUs, with weights of fp32 and bf16.
bool HasPlainLayers(const ModelSpec& shape);

// Reads the config.json of a model directory (config/models/hf_config.h) in order to compute the
// model. `path` is the directory or the file. Throws InputError (data), one line, for what
// ReadHfConfig refuses and for what cannot be computed: model types whose shape alone is known,
// quantised weights, configs nested in text_config, the rope types dynamic and longrope, and
// GPT-2's scale_attn_by_inverse_layer_idx.
ModelConfig ReadModelConfig(const std::filesystem::path& path);

// Parses the text of a config.json as ReadModelConfig() does, without a name; `where` stands for
// the file in errors.
ModelConfig ParseModelConfig(std::string_view text, const std::string& where);

// Makes a configuration for a model of which only the shape is known, as for presets: the
// configuration of the family whose models have such a shape. Fields that a shape lacks
// (activation, norm epsilon, rotary base) get the family's usual values; there are no
// end-of-sequence tokens. Meant for dummy weights.
// Throws InputError (usage) if no family that can be computed has the shape.
ModelConfig ConfigOfShape(const ModelSpec& shape);

}  // namespace twin::exec
