// How many numbers a layer of a model has, by part.
#pragma once

#include <cstdint>

#include "core/layer_spec.h"
#include "core/model_spec.h"

namespace twin {

// Numbers of one rank's share of a layer, by the part that WeightFormats names.
struct LayerCount {
  std::int64_t attention = 0;
  std::int64_t recurrent = 0;
  std::int64_t dense = 0;
  std::int64_t shared = 0;
  std::int64_t experts = 0;
  std::int64_t rest = 0;  // norms, routers, convolutions and biases

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
