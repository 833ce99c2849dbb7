// A model as its config.json describes it: the shape, and how to compute it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/models/model_family.h"
#include "config/models/rope_config.h"
#include "core/activation.h"
#include "core/model_spec.h"

namespace twin {

// Where a layer has its norms: before each half, behind each residual addition, or both before and
// behind each half (gemma2).
enum class NormPlacement : std::uint8_t { kBefore, kBehindSum, kAround };

// Layout in which a checkpoint stores weights in 4 bits.
struct Int4Layout {
  enum class Kind : std::uint8_t { kGptq, kAwq };
  Kind kind = Kind::kGptq;
  std::int32_t group = 128;     // inputs that share a scale and a zero point; 0 = all of them
  bool zero_minus_one = false;  // zero points are stored less 1
  bool symmetric = false;       // all zero points are 8, whether stored as 8 or as 7

  bool operator==(const Int4Layout&) const = default;
};

// The simulator uses `shape` alone; executors use everything. Some configs can be simulated but not
// computed (exec/model/model_config.h).
struct ModelConfig {
  ModelSpec shape;
  std::string model_type;  // empty: unknown, as of a preset
  WeightNaming naming = WeightNaming::kLlama;
  Activation activation = Activation::kSilu;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 0;
  float norm_gain_offset = 0;  // added to the stored gains (gemma2: 1)
  // Of models without learned positions: leading dimensions of a head that are rotated, and how.
  std::int32_t rotary_dimensions = 0;
  RopeConfig rope;
  // First row of the position table that is used (opt: 2).
  std::int32_t position_offset = 0;
  // Of each layer, the keys that a query sees, itself included; 0 = all before it.
  std::vector<std::int32_t> layer_windows;

  // Factors of the embedding, of each half's output before it is added, of q.k before softmax, and
  // of the logits. Caps: x becomes cap * tanh(x / cap); 0 = none.
  float embedding_scale = 1;
  float residual_scale = 1;
  float attention_scale = 1;
  float logit_scale = 1;
  float attention_cap = 0;
  float logit_cap = 0;
  // Of a mixture: each token's experts have their softmax values divided by the sum of these.
  bool normalises_expert_weights = false;
  bool scales_attention_by_layer = false;  // also divides q.k by the layer's number, from 1 (gpt2)

  std::vector<std::int32_t> end_tokens;  // a generation may stop behind any of these

  // quant_method of quantization_config, as "fp8", "awq", "gptq"; empty = stored as weight_dtype.
  std::string quantization;
  std::optional<std::int32_t> quantization_bits;  // of awq and gptq
  std::optional<Int4Layout> int4;  // where that is awq or gptq of 4 bits in a layout that is read
  bool is_nested = false;          // the config was the text_config of a multi-modal model
};

}  // namespace twin
