// The open requests of an executor: their tokens, and the blocks of their KV cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "exec/backend.h"
#include "kernels/kv_copy.h"
#include "kernels/sampling.h"
#include "sched/step_plan.h"

namespace twin::exec {

struct OpenRequest {
  std::vector<std::int32_t> tokens;  // prompt, and output so far
  std::vector<std::int32_t> drafts;  // guesses of the tokens that follow
  std::vector<BlockId> blocks;
  std::vector<BlockId> host_blocks;  // while swapped out or being swapped
  kernels::SamplingParameters sampling;
};

// Blocks that are copied together, all in one direction.
struct SwapBatch {
  bool out = false;  // from the device to the host
  std::vector<kernels::BlockCopy> copies;
};

class OpenRequests {
 public:
  // Opens a request; ids may come in any order. REQUIRES: it is not open.
  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling);
  void Close(RequestId id) { requests_.Close(id); }

  // Applies the block operations of a plan. Returns the swaps among them, to be executed batch by
  // batch in this order; valid until the next call. REQUIRES: plans come in their order.
  std::span<const SwapBatch> Follow(const StepPlan& plan);

  // True if all tokens that the plan computes are stored.
  [[nodiscard]] bool HasTokensFor(const StepPlan& plan) const;
  // Appends a token that another stage sampled. Has no effect if the request is closed.
  void StoreToken(const SampledToken& sampled);

  [[nodiscard]] OpenRequest& operator[](RequestId id) { return requests_[id]; }
  [[nodiscard]] const OpenRequest& operator[](RequestId id) const { return requests_[id]; }
  [[nodiscard]] OpenRequest* Find(RequestId id) { return requests_.Find(id); }

 private:
  void Apply(const KvOperation& operation);
  void Copy(KvOperation::Kind kind, BlockId from, BlockId to);

  IdMap<OpenRequest> requests_;
  std::vector<SwapBatch> batches_;  // the first batch_count_ are in use
  std::size_t batch_count_ = 0;
};

}  // namespace twin::exec
