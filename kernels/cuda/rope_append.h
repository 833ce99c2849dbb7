// Fuses the steps between the QKV projection and attention into one kernel: bias, head norms, RoPE,
// and the write to the KV cache.
// CPU twins: AddBias, HeadRmsNorm, ApplyRope, AppendKv.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/kv_cache.h"

namespace twin::kernels::cuda {

// Pointers are device memory. A null pointer omits the step that would use it.
struct RopeAppendOptions {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  const float* bias = nullptr;        // [(heads + 2 * kv_heads) * head_dim]
  const float* query_gain = nullptr;  // [head_dim]: RMS norm of each query head
  const float* key_gain = nullptr;
  float epsilon = 0;                  // of the head norms
  const float* rope_table = nullptr;  // of RopeTable: [positions][pairs cosines, pairs sines]
  std::int64_t pairs = 0;
  bool keeps_keys = false;  // keys and values in qkv are updated in place too
};

// Adds the bias, normalises query and key heads, rotates them by their position, and writes keys
// and values to `layer` of the cache. Queries are updated in place. The keys and values in qkv are
// unspecified afterwards; with `keeps_keys`, they are equal to the ones written to the cache.
//
// Shapes    qkv: [tokens, (heads + 2 * kv_heads) * head_dim], bf16, as the cache;
//           positions, slots: [tokens]. Tokens with a negative slot are not written to the cache.
// REQUIRES  head_dim is even and at most 512; 2 * pairs <= head_dim.
// Error     Computes in fp32 and rounds once.
// Cost      Reads qkv, writes queries and cache slots: 2 * tokens * width elements. With
//           `keeps_keys` also writes keys, and values if they have a bias.
void RopeAppend(StreamView stream, DeviceMatrix qkv, const std::int32_t* positions,
                const std::int32_t* slots, const RopeAppendOptions& options, std::int64_t layer,
                const KvCacheView& cache);

}  // namespace twin::kernels::cuda
