// Everything between the projection of queries, keys and values and attention, in one pass.
// CPU twins: AddBias, HeadRmsNorm, ApplyRope, AppendKv.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/kv_cache.h"

namespace twin::kernels::cuda {

// All pointers are device memory; a null one leaves its part out.
struct RopeAppendOptions {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  const float* bias = nullptr;        // [(heads + 2 * kv_heads) * head_dim]
  const float* query_gain = nullptr;  // [head_dim]: RMS norm of each query head
  const float* key_gain = nullptr;
  float epsilon = 0;                  // of these norms
  const float* rope_table = nullptr;  // [positions][pairs cosines, pairs sines]: RopeTable's
  std::int64_t pairs = 0;
};

// Adds the bias, normalises query and key heads, turns them by their position, and writes keys and
// values into `layer` of the cache; queries stay in place, keys and values in qkv are unspecified.
//
// Shapes    qkv: [tokens, (heads + 2 * kv_heads) * head_dim], bf16 or fp16, as the cache;
//           positions, slots: [tokens]; a negative slot writes nothing.
// REQUIRES  any head_dim <= 512 that is even; 2 * pairs <= head_dim.
// Error     computed in fp32, rounded once.
// Cost      reads qkv, writes queries and slots: 2 * tokens * width elements.
void RopeAppend(StreamView stream, DeviceMatrix qkv, const std::int32_t* positions,
                const std::int32_t* slots, const RopeAppendOptions& options, std::int64_t layer,
                const KvCacheView& cache);

}  // namespace twin::kernels::cuda
