// Models as experiments and commands name them: presets and paths.
#pragma once

#include <string>
#include <string_view>

#include "config/models/model_config.h"
#include "core/model_spec.h"

namespace twin {

// True for a name with a '/', which is the path of a model directory or of its config.json. Any
// other name is a preset.
bool NamesModelPath(std::string_view model);

// The model that a simulation names: a known name (model_names.h), a file, or, if there is no
// such file, the checkpoint that the last part of the path names, whoever published it. A known
// name sets the shape alone. Weights of a file in a format that has no cost model (AWQ, GPTQ, ...)
// are refused unless `has_weight_dtype`: the caller then sets weight_dtype, which holds for all
// parts. Throws InputError (usage) for an unknown name, and the errors of hf_config.h (data).
ModelConfig ReadNamedModel(const std::string& model, bool has_weight_dtype);
ModelSpec ReadNamedShape(const std::string& model, bool has_weight_dtype);

// Up to three presets whose names are nearest to `model`, as NearestNames() writes them: of its
// family and size if there are any ("8b"), else of its family, else of all.
std::string NearestModels(std::string_view model);

// Message for a path that does not exist: that no preset has this name, how to download the
// config.json of a model on huggingface.co, and "the nearest preset is qwen3-14b" for
// "Qwen/Qwen3-14B-GGUF", or up to three presets of the same family, if there are any.
std::string NoSuchModel(std::string_view path);

}  // namespace twin
