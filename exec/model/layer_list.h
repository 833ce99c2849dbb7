// The layers of a model one by one, and what they keep in a cache.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/layer_spec.h"
#include "core/model_spec.h"
#include "kernels/kv_cache.h"

namespace twin::exec {

// All layers in order. Windows of equal layers are in ModelConfig::layer_windows alone.
std::vector<LayerSpec> LayerListOf(const ModelSpec& model);

// Makes the layers of `model` those of the list.
void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model);

// The shape of the KV cache of a model: a row for each layer that caches keys. A token takes
// KvBytesPerTokenAndLayer() in each of them. REQUIRES: such layers cache rows of one shape.
kernels::KvCacheShape CacheShapeOf(const ModelSpec& model, DType dtype, std::int64_t blocks,
                                   std::int64_t block_size);

// True if all layers that cache keys cache rows of one shape.
bool CachesEqualRows(const ModelSpec& model);

}  // namespace twin::exec
