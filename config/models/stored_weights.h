// Reads how a checkpoint stores its weights from Hugging Face's config.json.
#pragma once

#include <optional>
#include <string>

#include "config/models/config_fields.h"
#include "config/models/model_config.h"

namespace twin {

// Sets the data types of weights, their parts (part_formats.h) and the KV cache, the name and bits
// of the quantisation and the layout of 4-bit weights. `nested` is the language model's part of a
// multi-modal model's config: its fields win, except that the outer quantization_config comes
// first. Throws InputError (data) for a data type that is not float32, bfloat16 or float16. Formats
// that are not modelled become format_problem. REQUIRES: the shape of `model` is read.
void ReadStoredWeights(const ConfigFields& outer, const std::optional<ConfigFields>& nested,
                       ModelConfig& model);

// The quantisation of the weights for messages: "method gptq with 8 bits". REQUIRES: the model has
// a quantization.
std::string QuantizationText(const ModelConfig& model);

}  // namespace twin
