// What config.json of a model directory says about computing the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/model_spec.h"
#include "exec/model/rope.h"
#include "kernels/activation.h"

namespace twin::exec {

// How the tensors are named and laid out in the weights file.
enum class WeightNaming : std::uint8_t {
  kLlama,  // model.layers.N.self_attn.q_proj ...; also mistral, qwen2, qwen3, gemma2, granite
  kPhi3,   // the same with qkv_proj and gate_up_proj fused
  kGpt2,   // h.N.attn.c_attn ..., matrices stored [in, out]
  kOpt,    // decoder.layers.N.self_attn.q_proj, fc1, fc2
};

// Where a layer has its norms: before each half, behind each residual addition, or both before and
// behind each half (gemma2).
enum class NormPlacement : std::uint8_t { kBefore, kBehindSum, kAround };

struct ModelConfig {
  ModelSpec shape;
  WeightNaming naming = WeightNaming::kLlama;
  kernels::Activation activation = kernels::Activation::kSilu;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 0;
  float norm_gain_offset = 0;  // added to the stored gains (gemma2: 1)
  // Of models without learned positions: the leading dimensions of a head that turn, and how.
  std::int32_t rotary_dimensions = 0;
  RopeConfig rope;
  // First row of the position table that is used (opt: 2).
  std::int32_t position_offset = 0;
  // Keys that a query sees in a layer, itself included; 0 = all before it.
  std::vector<std::int32_t> layer_windows;

  // Factors: of the embedding, of each half's output before it is added, of q.k before softmax, of
  // the logits. Caps: x becomes cap * tanh(x / cap); 0 = none.
  float embedding_scale = 1;
  float residual_scale = 1;
  float attention_scale = 1;
  float logit_scale = 1;
  float attention_cap = 0;
  float logit_cap = 0;

  std::vector<std::int32_t> end_tokens;  // a generation may stop behind any of these
};

// Reads `directory`/config.json, in the spelling of transformers 4 or 5, and the end of sequence
// from generation_config.json where that is there. The model's name is that of the directory.
//
// Families: llama, mistral, qwen2, qwen3, phi3, gemma2, granite, gpt2, opt; dense models only.
// Throws InputError (data): the file, the field, what is wrong, what is allowed.
ModelConfig ReadModelConfig(const std::filesystem::path& directory);

// The same from the text of a config.json, without a name; `where` stands for the file in errors.
ModelConfig ParseModelConfig(std::string_view text, const std::string& where);

}  // namespace twin::exec
