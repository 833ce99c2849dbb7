// The kernels of a layer, as a host launches them one by one.
//
// Engines replay captured graphs where they can. In other steps the host launches every kernel, and
// short prompts take as long as that, whatever the device needs. Counted are the operations of
// layer_operations.h and those that it joins or leaves out because the device hardly notices them:
// routing and sorting of a mixture's tokens, parts of a chunked delta rule, and the quantisation of
// a product's input where the format scales it anew for each token (fp8 in blocks, nvfp4).
// Reductions between ranks count with the norm after them, with which engines fuse them.
#pragma once

#include "core/model_spec.h"

namespace twin::sim {

// Kernels of a layer with attention over all keys and an MLP, without quantisation.
inline constexpr double kDenseLayerLaunches = 10;

// Kernels of a layer of `model`.
[[nodiscard]] double LayerLaunches(const ModelSpec& model, const LayerSpec& layer);

}  // namespace twin::sim
