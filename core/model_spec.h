// The shape of a decoder-only transformer, and the parameter counts and byte sizes derived from it.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace twin {

enum class NormKind : std::uint8_t {
  kRmsNorm,    // gain
  kLayerNorm,  // gain and bias
};

// The mixture of experts that replaces each layer's MLP. `experts` = 0: the MLP is dense.
struct MoeSpec {
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t expert_intermediate = 0;
  // Width of the shared expert, an MLP applied to every token with a sigmoid gate [hidden];
  // 0 = none.
  std::int32_t shared_intermediate = 0;

  bool operator==(const MoeSpec&) const = default;
};

// Fields have the meaning that they have in public config.json files. Counts are for the whole
// model, not for one rank.
struct ModelSpec {
  std::string name;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t intermediate = 0;  // width of the dense MLP; unused when moe.experts > 0
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t vocab = 0;
  std::int32_t max_position = 0;
  bool tied_embeddings = false;  // the output head shares the embedding's weights
  bool gated_mlp = true;         // gate, up and down projections; otherwise up and down
  NormKind norm = NormKind::kRmsNorm;
  std::int32_t norms_per_layer = 2;
  bool final_norm = true;
  bool qkv_bias = false;
  bool output_bias = false;  // the attention's output projection has a bias
  bool mlp_bias = false;
  bool qk_norm = false;  // a norm of width head_dim on queries and on keys
  // Rows of the learned position embedding; 0 = rotary or none.
  std::int32_t learned_positions = 0;
  // Width of the word embedding if it is projected to `hidden` and back; 0 = `hidden`, unprojected.
  std::int32_t embedding_width = 0;
  std::int32_t sliding_window = 0;   // keys that a query sees, itself included; 0 = all
  std::int32_t windowed_layers = 0;  // layers that the window applies to
  MoeSpec moe;
  DType weight_dtype = DType::kBf16;
  DType kv_dtype = DType::kBf16;

  bool operator==(const ModelSpec&) const = default;
};

// How one replica is split over devices: `pipeline` stages of `tensor` ranks each.
struct Parallelism {
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;

  [[nodiscard]] std::int32_t devices() const { return tensor * pipeline; }
  bool operator==(const Parallelism&) const = default;
};

// Throws InputError (usage) naming the model and field if a size is not positive, the heads do not
// divide, or a mixture of experts is incomplete.
void Validate(const ModelSpec& model);
// Also checks that the model can be split in this way: `tensor` divides the query heads and MLP
// widths, KV heads divide or are replicated evenly, and every stage has a layer.
void Validate(const ModelSpec& model, const Parallelism& parallelism);

// Parameters of the whole model (total), and parameters used to compute one token (active: in a
// mixture of experts, only experts_per_token count).
std::int64_t TotalParameters(const ModelSpec& model);
std::int64_t ActiveParameters(const ModelSpec& model);

// Active parameters without embedding, positions and head. Each of them multiplies every token, at
// two floating-point operations per token.
std::int64_t ActiveLayerParameters(const ModelSpec& model);

// Bytes of one activation value: fp32 models compute in fp32, other models in 16 bits.
std::int64_t ActivationByteSize(const ModelSpec& model);

// Layers of a stage: layers / pipeline. The remainder is spread one layer per stage, starting at
// the last stage but one and going backwards (vLLM, distributed/utils.py, get_pp_indices).
// REQUIRES: 0 <= stage < pipeline.
std::int32_t StageLayers(const ModelSpec& model, const Parallelism& parallelism,
                         std::int32_t stage);

// KV heads of one rank: its share, or one replicated head if there are more ranks than heads.
std::int32_t KvHeadsPerRank(const ModelSpec& model, const Parallelism& parallelism);

// Weight bytes of one rank of `stage`; embedding, head and final norm in EmbeddingFormat().
// Projections are sharded by heads and by MLP width, embedding and head by rows (rounded up).
// Norms, biases of reduced outputs, routers and learned positions are replicated. A tied embedding
// is stored twice if the first and last stage differ.
std::int64_t WeightBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                                std::int32_t stage);

// KV-cache bytes of one token in one layer, on one rank: keys and values.
std::int64_t KvBytesPerTokenAndLayer(const ModelSpec& model, const Parallelism& parallelism);
// KV-cache bytes of one token in all layers of a stage, and in the whole model on one device.
std::int64_t KvBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage);
std::int64_t KvBytesPerToken(const ModelSpec& model);

}  // namespace twin
