// Reads the config.json that Hugging Face transformers write: the one reader for simulation and
// execution.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/models/model_config.h"

namespace twin {

// Reads a model directory's config.json, and its generation_config.json for the end-of-sequence
// tokens if that exists. `path` is the directory or the config file. The model is named after the
// directory.
//
// Accepts the spellings of transformers 4 and 5 (torch_dtype or dtype, rope_theta or
// rope_parameters) and configs nested in text_config. Fields that are left out get the values of
// transformers (families.h); a null num_key_value_heads means one per query head, a null
// head_dim hidden_size / num_attention_heads, a null sliding_window none. Weights and KV cache get
// the stored type, fp32 if none is named. With a quantization_config, weights of method fp8 get
// fp8, and weights of awq and gptq in 4 bits get int4; a KV cache with a kv_cache_scheme of 8 bits
// gets fp8 or int8.
//
// Throws InputError (data), one line: the file, the field, what is wrong, what is allowed.
ModelConfig ReadHfConfig(const std::filesystem::path& path);

// As ReadHfConfig(), from the text of a config.json, into a model without a name; errors name
// `where`.
ModelConfig ParseHfConfig(std::string_view text, const std::string& where);

}  // namespace twin
