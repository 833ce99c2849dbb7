// Executes an engine's steps on one device.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "exec/backend.h"
#include "exec/ngram_proposer.h"
#include "kernels/kv_cache.h"

namespace twin::exec {

class DeviceModel;

struct ExecutorConfig {
  DType kv_dtype = DType::kFp32;  // one that the device computes with
  std::int32_t block_size = 16;
  std::int32_t blocks = 0;          // as in the engine's pool
  std::int32_t host_blocks = 0;     // as in the engine's pool
  bool returns_logits = true;       // with collected steps; otherwise they stay on the device
  bool logits_of_all_rows = false;  // otherwise only of rows that emit
  // Speculative decoding, on a single CPU: the number of drafts of a request per step. They come
  // from a draft model with the same vocabulary, which is borrowed, or from n-grams if that is
  // null.
  std::int32_t drafts_max = 0;
  DeviceModel* draft_model = nullptr;
  NgramConfig ngram = {};
};

// Keeps each request's tokens and its block table, which follows the plans. Steps are executed in
// the order of planning; equal plans give equal tokens.
//
// With pipeline stages, the first stage reads token ids and the last one samples. Call StoreToken()
// on the first stage before it launches a plan that uses the token.
class Executor : public Backend {
 public:
  // True if this stage has all tokens that the plan computes.
  [[nodiscard]] virtual bool HasTokensFor(const StepPlan& plan) const = 0;
  // Stores a token that the last stage sampled. REQUIRES: this is not the last stage.
  virtual void StoreToken(const SampledToken& sampled) = 0;

  // The KV cache in the memory of the device.
  [[nodiscard]] virtual const kernels::KvCacheView& device_cache() const = 0;
  // Fills the whole cache with random numbers of the size that keys and values have. REQUIRES: no
  // step is in flight.
  virtual void FillCache(std::uint64_t seed) = 0;
};

}  // namespace twin::exec
