// Names of public models: presets, checkpoints of their shapes, and formats of weights.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// The names of all presets, grouped by family, in a fixed order: lower case with dashes
// (llama-3-8b).
std::span<const std::string_view> ModelPresetNames();

// The name of the preset that people call `name`; capitals and separators do not count. Empty for
// any other name.
std::string_view FindPresetName(std::string_view name);

// The model that people call `name`, in this order: a preset; a checkpoint of a preset's shape
// (deepseek-r1); one of them in another format (-fp8, -nvfp4, -mxfp4, -int4, -awq, ... at the end,
// as public checkpoints have it); one of them without the words -instruct, -chat, -it, -base, -hf
// and -bf16 in its name, or without meta- or nvidia- before it. Capitals and separators do not
// count. Its name is that of the preset or of the checkpoint, with the format. None for any other
// name. A preset is in the format in which it was published. Cost: the first call for a preset
// reads its config.json, about 0.1 ms.
std::optional<ModelSpec> FindModel(std::string_view name);

// As FindModel(). Throws InputError (usage) for an unknown name, with the nearest names, and for a
// model that a ModelSpec cannot describe, with the reason.
ModelSpec ModelPreset(std::string_view name);

// Stores the weights of all parts in one format.
void StoreWeightsAs(DType format, ModelSpec& model);
// The one format of the weights; nullopt if parts have formats of their own.
std::optional<DType> UniformFormat(const ModelSpec& model);

// Why a ModelSpec cannot describe a public model that people ask for, by its name with or without
// the organisation; empty for any other name.
std::string_view WhyNotDescribed(std::string_view name);

}  // namespace twin
