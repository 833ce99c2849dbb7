#include "sim/devices/layer_launches.h"

#include "core/layer_work.h"

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

// A kernel, and one that quantises its inputs where weights have scales of blocks.
double ProductLaunches(const ModelSpec& model, LayerPart part) {
  if (part == LayerPart::kRouter) return 1;
  const DType stored = FormatOfPart(model, part);
  return stored == DType::kFp8Block || stored == DType::kNvfp4 ? 2 : 1;
}

// Kernels of attention beside its products.
double AttentionKernels(const LayerSpec& layer) {
  if (layer.recurrent) {
    const RecurrentKind kind = layer.recurrent->kind;
    const bool has_delta_rule =
        kind == RecurrentKind::kGatedDelta || kind == RecurrentKind::kKimiDelta;
    return has_delta_rule ? kDeltaRuleKernels : kScanKernels;
  }
  if (layer.query_heads == 0) return 0;
  const double gate = layer.output_gate == OutputGate::kNone ? 0 : 1;
  if (layer.latent) return kLatentKernels + (layer.latent->owns_index() ? kIndexKernels : 0) + gate;
  const double norms = layer.qk_norm || layer.full_qk_norm ? 2 : 0;
  const double norm_of_factor = layer.query_rank > 0 ? 1 : 0;
  return kAttentionKernels + norms + gate + (layer.block_index ? kIndexKernels : 0) +
         norm_of_factor;
}

// Kernels of MLP and experts beside their products: an activation for each MLP; the last kernel of
// a mixture adds the shared experts' output.
double MlpKernels(const LayerSpec& layer) {
  const MoeSpec& moe = layer.moe;
  if (moe.experts == 0) return layer.intermediate > 0 ? 1 : 0;
  return kRoutingKernels + (moe.dense_intermediate > 0 ? 1 : 0) +
         (moe.shared_intermediate > 0 ? 2 : 0);
}

}  // namespace

double LayerLaunches(const ModelSpec& model, const LayerSpec& layer) {
  double launches = layer.norms_per_layer + AttentionKernels(layer) + MlpKernels(layer);
  for (const LayerProduct& product : LayerProducts(model, layer, {})) {
    launches += ProductLaunches(model, product.part);
  }
  return launches;
}

}  // namespace twin::sim
