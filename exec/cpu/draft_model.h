// A draft model on the CPU: proposes the next tokens of requests (speculative decoding).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/cpu_model.h"
#include "exec/cpu/kv_storage.h"
#include "exec/executor.h"
#include "exec/open_requests.h"
#include "exec/ragged_batch.h"
#include "sched/step_plan.h"

namespace twin::exec {

// Follows the steps of the target model, in its own cache with the same blocks. After each step it
// computes the tokens of the step, including the emitted tokens, and then one further token at a
// time for each request that emitted, always the most likely one.
//
// Easy to get wrong: keys and values of rejected drafts are overwritten, because the next step
// begins at the first token that the target has not computed. Blocks shared by prefix caching hold
// the draft model's keys, too, because it computes whatever the target computes.
class DraftModel {
 public:
  // Borrows the model, which has one rank. The cache has as many blocks as the target's, of the
  // same size and number format.
  DraftModel(CpuModel& model, const ExecutorConfig& target)
      : model_(model),
        cache_(model.CacheShape(target.kv_dtype, target.blocks, target.block_size)),
        host_(model.CacheShape(target.kv_dtype, target.host_blocks, target.block_size)) {}

  // Copies the blocks that the target copies, before the step that Propose follows.
  void Swap(const SwapBatch& batch);

  // Sets OpenRequest::drafts of the requests that emitted: at most `drafts_max` drafts, and fewer
  // if the request's blocks or the model's positions do not suffice.
  // REQUIRES: the tokens of the step are in `requests`.
  void Propose(const StepPlan& plan, std::int32_t drafts_max, OpenRequests& requests);

 private:
  // A request that emitted, and how many drafts it can still get.
  struct Drafting {
    OpenRequest* request = nullptr;
    std::int32_t room = 0;
  };

  // Adds the tokens of the step to items_.
  void AddStep(const StepPlan& plan, std::int32_t drafts_max, OpenRequests& requests);
  // Adds the latest draft of each request that gets a further one.
  void AddDrafts();
  [[nodiscard]] std::int32_t BlockSize() const {
    return static_cast<std::int32_t>(cache_.view().shape.block_size);
  }
  // Computes the items: one row of logits for each request in drafting_.
  void Compute();

  CpuModel& model_;
  KvStorage cache_;
  KvStorage host_;  // for swapped-out blocks
  RaggedBatch batch_;
  std::vector<BatchItem> items_;
  std::vector<std::size_t> emitting_;  // indices of items, one for each request in drafting_
  std::vector<Drafting> drafting_;
};

}  // namespace twin::exec
