// Longest request that each server allows for a model: servers read rope_scaling differently.
#pragma once

#include <cstdint>

#include "config/models/model_config.h"

namespace twin {

enum class PositionRule : std::uint8_t {
  // vLLM (config/model.py, _get_and_verify_max_len): the least of the keys of StoredPositions, or
  // model_max_length if it is there, x factor; for yarn original_max_position_embeddings x factor;
  // for llama3, longrope and gemma3 without a factor. Since 0.11.1 (pull request 27431), a server
  // starts longrope at the original positions.
  kVllm,
  kVllmBefore0111,
  // SGLang (utils/hf_transformers_utils.py, get_context_length): the first of max_sequence_length,
  // seq_length, max_seq_len, model_max_length and max_position_embeddings, x factor, unless
  // rope_scaling has original_max_position_embeddings or is llama3.
  kSglang,
  // TGI (launcher/src/main.rs): the first of max_position_embeddings, max_seq_len and n_positions.
  kTgi,
  // TensorRT-LLM (_torch/models/modeling_utils.py, infer_max_seq_len): max_position_embeddings x
  // factor rounded up, without the factor for yarn, llama3 and longrope.
  kTrtLlm,
};

// Tokens of a request.
struct ServedPositions {
  std::int32_t most = 0;      // most tokens that an operator may ask for
  std::int32_t at_start = 0;  // without a setting of the operator; at most `most`
};

ServedPositions FindServedPositions(const ModelConfig& model, PositionRule rule);

}  // namespace twin
