// The work of one rank in a layer: products with weights, and attention over cached keys. The
// numbers that a layer has follow from them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layer_spec.h"
#include "core/model_spec.h"

namespace twin {

enum class LayerPart : std::uint8_t {
  kAttention,  // over cached keys
  kRecurrent,
  kRecurrentGates,  // of a gated delta rule, a product of its own
  kDense,
  kShared,
  kExperts,
  kRouter,
};

enum class ProductRole : std::uint8_t {
  kInput,        // queries, keys and values, or what a state takes; low ranks are products too
  kLatentHeads,  // keys and values of all heads from latent vectors: in chunks of prompts alone
  kIndex,        // queries and keys of a sparse index
  kGate,         // of the attention's output, where it is a product of its own
  kOutput,
  kRouter,
  kResize,  // to the width that experts compute in, or back
  kGateUp,  // up alone in MLPs without gate
  kDown,
  kLinear,
};

// Y[rows, outputs] = X[rows, inputs] W. Biases are not part of it.
struct LayerProduct {
  LayerPart part{};
  ProductRole role{};
  std::int64_t inputs = 0;   // of one rank
  std::int64_t outputs = 0;  // of one rank

  [[nodiscard]] std::int64_t numbers() const { return inputs * outputs; }
  bool operator==(const LayerProduct&) const = default;
};

// The products of one rank in the order of execution. Those of kExperts are one expert's.
std::vector<LayerProduct> LayerProducts(const ModelSpec& model, const LayerSpec& layer,
                                        const Parallelism& parallelism);

// One rank's share of a recurrence: its value heads, and the numbers of all its keys and values. A
// rank has one key head at least.
struct RecurrentWidths {
  std::int64_t heads = 0;
  std::int64_t keys = 0;
  std::int64_t values = 0;
};
RecurrentWidths WidthsOf(const RecurrentSpec& recurrent, const Parallelism& parallelism);

// Operations of a query and a key that it sees, of all heads of all ranks; 0 without cached keys.
struct PairFlops {
  std::int64_t prompts = 0;  // in chunks, where each head has keys and values of its own
  std::int64_t decodes = 0;  // latent attention reads the latent vectors themselves
};
PairFlops PairFlopsOf(const LayerSpec& layer);

// The format that the model stores a part's matrices in, or computes them in: routers as dense
// MLPs, gates as the recurrent part.
DType FormatOfPart(const ModelSpec& model, LayerPart part);

// Numbers of one rank's share of a layer, by the part that WeightFormats names.
struct LayerCount {
  std::int64_t attention = 0;
  std::int64_t recurrent = 0;
  std::int64_t dense = 0;
  std::int64_t shared = 0;
  std::int64_t experts = 0;
  std::int64_t rest = 0;  // norms, routers, gates, convolutions and biases

  [[nodiscard]] std::int64_t sum() const {
    return attention + recurrent + dense + shared + experts + rest;
  }
};

// One rank's share of a layer; a mixture in it has `experts` experts.
LayerCount CountLayer(const ModelSpec& model, const LayerSpec& layer,
                      const Parallelism& parallelism, std::int64_t experts);

// Bytes of one rank's share of a layer. Where parts have formats of their own, the rest of the
// layer stays in 16 bits.
double LayerBytes(const ModelSpec& model, const LayerSpec& layer, const Parallelism& parallelism);

// Parameters of one norm over `width` values.
std::int64_t NormParameters(const ModelSpec& model, std::int64_t width);

}  // namespace twin
