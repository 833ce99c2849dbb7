#include "exec/model/cache_shape.h"

#include <algorithm>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::exec {
namespace {

// The part of a cache's shape that one layer decides. No rows if it caches no keys.
kernels::KvCacheShape RowsOf(const LayerSpec& layer) {
  if (layer.latent) {
    return {.layers = 1,
            .kv_heads = 1,
            .head_dim = layer.latent->kv_rank + layer.latent->rope_dim,
            .value_in_key = layer.latent->kv_rank};
  }
  if (layer.query_heads == 0) return {};
  return {.layers = 1, .kv_heads = layer.kv_heads, .head_dim = layer.head_dim};
}

}  // namespace

kernels::KvCacheShape CacheShapeOf(const ModelSpec& model, DType dtype, std::int64_t blocks,
                                   std::int64_t block_size) {
  kernels::KvCacheShape shape;
  for (const LayerGroup& group : OrderedLayers(model)) {
    const kernels::KvCacheShape rows = RowsOf(group.layer);
    if (rows.layers == 0) continue;
    const std::int64_t layers = shape.layers + group.layers;
    shape.layers = rows.layers;
    CHECK(layers == group.layers || shape == rows);
    shape = rows;
    shape.layers = layers;
  }
  shape.dtype = dtype;
  shape.blocks = blocks;
  shape.block_size = block_size;
  return shape;
}

bool HasStates(const ModelSpec& model) {
  return std::ranges::any_of(OrderedLayers(model), [](const LayerGroup& group) {
    return group.layer.recurrent.has_value();
  });
}

void RefuseWithStates(const ModelSpec& model, const std::string& what) {
  if (!HasStates(model)) return;
  throw InputError(InputError::Kind::kUsage, "model " + model.name,
                   "has recurrent layers, whose states do not allow " + what +
                       "; allowed: to compute each request from its first token on");
}

}  // namespace twin::exec
