// Reads the shape of a model from the config.json that Hugging Face transformers write.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// Accepts the spellings of transformers 4 and 5 (torch_dtype or dtype, rope_theta or
// rope_parameters, a nested text_config). An absent num_key_value_heads means one per query head,
// an absent head_dim hidden_size / num_attention_heads. Weights and KV cache get the stored type,
// fp32 when none is named. The model's name is that of the folder.
//
// Families: llama, mistral, mixtral, qwen2, qwen3, qwen2_moe, qwen3_moe, gpt2, opt, phi3, gemma2,
// granite. `path` is the file, or the directory that holds it.
//
// Throws InputError (data) with the file and the one field that is missing, of a wrong type, out of
// range, or names something unknown.
ModelSpec ReadHfConfig(const std::filesystem::path& path);

// The same from the text of a config.json, without a name; `where` stands for the file in errors.
ModelSpec ParseHfConfig(std::string_view text, std::string_view where);

}  // namespace twin
