// Models as experiments and commands name them: presets and paths.
#pragma once

#include <string>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// A name with a '/' is the path of a model directory or of its config.json, any other one a preset.
bool NamesModelPath(std::string_view model);

// The preset with exactly the shape of a hub's repository, by the last two parts of `path`:
// "qwen3-14b" for "Qwen/Qwen3-14B", "llama-3.1-8b" for "meta-llama/Llama-3.1-8B-Instruct". Empty
// for all others, such as repositories with quantised weights.
std::string_view PresetOfCheckpoint(std::string_view path);

// The shape of the model that a simulation names: a preset, a file, or, where there is no such
// file, the preset of that checkpoint. Weights in a format that has no cost model (int4,
// AWQ, GPTQ, ...) are refused unless `has_weight_dtype`: the caller then sets weight_dtype.
// Throws InputError: an unknown preset (usage); hf_config.h (data).
ModelSpec ReadNamedShape(const std::string& model, bool has_weight_dtype);

// What to say of a path that does not exist: "the nearest preset is qwen3-14b" for
// "Qwen/Qwen3-14B-AWQ", otherwise the three presets with the nearest names.
// Only the last part of `path` counts.
std::string SuggestPreset(std::string_view path);

}  // namespace twin
