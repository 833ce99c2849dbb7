#include "sim/devices/layer_launches.h"

#include <optional>

namespace twin::sim {
namespace {

// Rotary embedding, cache write, and the attention itself.
constexpr double kAttentionKernels = 3;
// Norms of both latent vectors, rotary embedding, cache write, joining the keys' parts, attention.
constexpr double kLatentKernels = 6;
// An index has rotary embedding, quantisation, cache write, logits, choice.
constexpr double kIndexKernels = 5;
// Convolution, gates, the chunked delta rule (norms of queries and keys, sums of gates, products
// within chunks, their inverse, states, outputs), and the gated norm.
constexpr double kDeltaRuleKernels = 10;
// Convolution, the chunked scan (sums, states of chunks, their passing on, products, outputs), and
// the gated norm.
constexpr double kScanKernels = 7;
// Choice of experts, sorting, distribution of the tokens, activation, weighted sum.
constexpr double kRoutingKernels = 5;

// Kernels of products whose inputs are in `format`, or in the model's.
class Products {
 public:
  Products(const ModelSpec& model, const std::optional<DType>& format) {
    const DType stored = format.value_or(model.weight_dtype);
    each_ = stored == DType::kFp8Block || stored == DType::kNvfp4 ? 2 : 1;
  }
  [[nodiscard]] double operator()(int count) const { return each_ * count; }

 private:
  double each_ = 1;
};

// The gate of the attention's output. A full gate of plain heads is made with the queries.
double GateLaunches(const LayerSpec& layer, const Products& attention) {
  if (layer.output_gate == OutputGate::kNone) return 0;
  const bool is_joined = layer.output_gate == OutputGate::kFull && !layer.latent;
  return (is_joined ? 0 : attention(1)) + 1;
}

double AttentionLaunches(const ModelSpec& model, const LayerSpec& layer) {
  const Products attention(model, model.formats.attention);
  if (layer.recurrent) {
    const Products products(model, model.formats.recurrent);
    switch (layer.recurrent->kind) {
      case RecurrentKind::kGatedDelta:
        return products(3) + kDeltaRuleKernels;
      case RecurrentKind::kKimiDelta:
        return products(6 - (layer.recurrent->full_rank_gate ? 1 : 0) -
                        (layer.recurrent->full_rank_decay ? 1 : 0)) +
               kDeltaRuleKernels;
      case RecurrentKind::kMamba2:
      case RecurrentKind::kLightning:
        return products(2) + kScanKernels;
    }
  }
  if (layer.latent) {
    const bool ranked = layer.latent->query_rank > 0;
    const double index = layer.latent->owns_index() ? attention(2) + kIndexKernels : 0;
    return attention(ranked ? 4 : 3) + kLatentKernels + index + GateLaunches(layer, attention);
  }
  if (layer.query_heads == 0) return 0;
  const double norms = layer.qk_norm || layer.full_qk_norm ? 2 : 0;
  const double index = layer.block_index ? attention(1) + kIndexKernels : 0;
  // A product more, and the norm before it.
  const double factors = layer.query_rank > 0 ? attention(1) + 1 : 0;
  return attention(2) + kAttentionKernels + norms + GateLaunches(layer, attention) + index +
         factors;
}

double MlpLaunches(const ModelSpec& model, const LayerSpec& layer) {
  const MoeSpec& moe = layer.moe;
  const double dense = Products(model, model.formats.dense)(2) + 1;
  if (moe.experts == 0) return layer.intermediate > 0 ? dense : 0;
  constexpr double kRouter = 1;
  double launches = kRouter + kRoutingKernels + Products(model, model.formats.experts)(2);
  if (moe.latent > 0) launches += Products(model, model.formats.dense)(2);
  if (moe.dense_intermediate > 0) launches += dense;
  // The last one adds the shared experts' output.
  if (moe.shared_intermediate > 0) launches += Products(model, model.formats.shared)(2) + 2;
  return launches;
}

}  // namespace

double LayerLaunches(const ModelSpec& model, const LayerSpec& layer) {
  const double linears = Products(model, model.formats.dense)(layer.linears);
  return layer.norms_per_layer + AttentionLaunches(model, layer) + MlpLaunches(model, layer) +
         linears;
}

}  // namespace twin::sim
