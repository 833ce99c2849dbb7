// The shape of a decoder-only transformer, and the parameter counts and byte sizes derived from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/layer_spec.h"
#include "core/parallelism.h"

namespace twin {

enum class NormKind : std::uint8_t {
  kRmsNorm,    // gain
  kLayerNorm,  // gain and bias
};

// Formats of parts of the layers' matrices; none = ModelSpec::weight_dtype.
struct WeightFormats {
  std::optional<DType> attention;  // over cached keys
  std::optional<DType> recurrent;
  std::optional<DType> dense;   // dense MLPs
  std::optional<DType> shared;  // shared experts
  std::optional<DType> experts;

  bool operator==(const WeightFormats&) const = default;
};

// A model of equal layers has the fields of LayerSpec and no `groups`; `windowed_layers` of its
// layers may have the window. A model of layers that differ lists all of them in `groups`, and its
// own LayerSpec is that of its first layer. Counts are for the whole model, not for one rank.
struct ModelSpec : LayerSpec {
  std::string name;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t vocab = 0;
  std::int32_t max_position = 0;
  bool tied_embeddings = false;  // the output head shares the embedding's weights
  NormKind norm = NormKind::kRmsNorm;
  bool final_norm = true;
  // Rows of the learned position embedding; 0 = rotary or none.
  std::int32_t learned_positions = 0;
  // Width of the word embedding if it is projected to `hidden` and back; 0 = `hidden`, unprojected.
  std::int32_t embedding_width = 0;
  std::int32_t windowed_layers = 0;  // without `groups`: layers that the window applies to
  std::vector<LayerGroup> groups;    // in order; empty = all layers are equal
  // The layer of the checkpoint's module of multi-token prediction (DeepSeek-V3, arXiv 2412.19437,
  // section 2.2), which is not one of `layers`; MtpModule() describes the module.
  std::optional<LayerSpec> mtp_layer;
  // This is such a module: it joins a token's embedding and the hidden state of the model whose
  // embedding and head it shares.
  bool is_mtp_module = false;
  DType weight_dtype = DType::kBf16;
  WeightFormats formats;
  DType kv_dtype = DType::kBf16;

  bool operator==(const ModelSpec&) const = default;
};

// Makes the layers of `model` those of `groups`, and its number of layers theirs. Layers that are
// all equal become the model's own; a window that all of them have applies to all.
void SetLayers(const std::vector<LayerGroup>& groups, ModelSpec& model);

// The module of multi-token prediction as a model of one layer, in the formats of `model`. Throws
// InputError (usage) if the model has none.
ModelSpec MtpModule(const ModelSpec& model);

// The most routed experts that a layer has; 0 = all MLPs are dense.
std::int32_t MostExperts(const ModelSpec& model);
// Throws InputError (usage) naming the model and field if a size is not positive, the heads do not
// divide, or a mixture of experts is incomplete.
void Validate(const ModelSpec& model);
// Also checks that the model can be split in this way: `tensor` divides the query heads and MLP
// widths, KV heads divide or are replicated evenly, and every stage has a layer. Devices of listed
// stages, and of a split by context, need not divide anything; listed stages hold all layers.
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

// Layers of a stage: as listed, else layers / pipeline. The remainder is spread one layer per
// stage, starting at the last stage but one and going backwards (vLLM, distributed/utils.py,
// get_pp_indices). REQUIRES: 0 <= stage < pipeline.
std::int32_t StageLayers(const ModelSpec& model, const Parallelism& parallelism,
                         std::int32_t stage);

// Distinct kinds of layers in a stage, with the number of layers of each, in the order in which
// they first occur. A model of equal layers has one.
std::vector<LayerGroup> StageLayerKinds(const ModelSpec& model, const Parallelism& parallelism,
                                        std::int32_t stage);

// KV heads of one rank: its share, or one replicated head if there are more ranks than heads.
std::int32_t KvHeadsPerRank(const LayerSpec& layer, const Parallelism& parallelism);

// Numbers of one rank that are in no layer: embedding and positions of the first stage, head and
// final norm of the last.
std::int64_t EndParameters(const ModelSpec& model, const Parallelism& parallelism,
                           std::int32_t stage);

// Weight bytes of one rank of `stage`: of its layers, and of all, where embedding, head and final
// norm are in EmbeddingFormat().
std::int64_t LayerBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                               std::int32_t stage);
// Projections are sharded by heads and by MLP width, embedding and head by rows (rounded up).
// Norms, biases of reduced outputs, routers, learned positions, and projections to and from latent
// vectors are replicated. A tied embedding is stored twice if the first and last stage differ.
std::int64_t WeightBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                                std::int32_t stage);

// Whether a layer caches something of each token for the whole life of a sequence.
bool KeepsAllTokens(const LayerSpec& layer);
// Cached bytes of a sequence of a layer that keeps a window, a chunk (both full) or a state of
// fixed size, on one rank.
std::int64_t FixedKvBytes(const ModelSpec& model, const LayerSpec& layer,
                          const Parallelism& parallelism);
// Cached bytes of a token for the layer's index, which every rank has whole; 0 = no index.
std::int64_t IndexBytesPerToken(const LayerSpec& layer);

// Cached bytes of a request of the layers of a stage on one rank.
struct KvBytes {
  std::int64_t per_token = 0;        // layers that keep all tokens: keys and values
  std::int64_t index_per_token = 0;  // keys of the indices of those layers
  std::int64_t per_sequence = 0;     // full windows and chunks, and states

  bool operator==(const KvBytes&) const = default;
};
KvBytes CachedBytes(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage);

// KV-cache bytes of one token in one layer, on one rank: keys and values.
std::int64_t KvBytesPerTokenAndLayer(const ModelSpec& model, const LayerSpec& layer,
                                     const Parallelism& parallelism);
// Bytes of one token in the blocks of a KV pool, in all layers of a stage, and in the whole model
// on one device. Blocks of a model of equal layers hold all of them. Otherwise they hold the layers
// that keep all tokens; of a model without such layers, those with windows.
std::int64_t KvBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage);
std::int64_t KvBytesPerToken(const ModelSpec& model);

}  // namespace twin
