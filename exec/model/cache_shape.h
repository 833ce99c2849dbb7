// The cache that the layers of a model need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/layer_spec.h"
#include "core/model_spec.h"
#include "kernels/kv_cache.h"

namespace twin::exec {

// The shape of the KV cache of a model: a row for each layer that caches keys. A token takes
// KvBytesPerTokenAndLayer() in each of them. REQUIRES: such layers cache rows of one shape.
kernels::KvCacheShape CacheShapeOf(const ModelSpec& model, DType dtype, std::int64_t blocks,
                                   std::int64_t block_size);

// True if some layers keep a state, which follows a sequence from its first token on. Nothing that
// begins in the middle of a sequence can be computed then: cached prefixes, swapped blocks, tokens
// after rejected drafts.
bool HasStates(const ModelSpec& model);

// Throws InputError (usage) naming `what`, one of these, if the model has states.
void RefuseWithStates(const ModelSpec& model, const std::string& what);

}  // namespace twin::exec
