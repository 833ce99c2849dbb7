// Executes steps of any composition with the real executor, without an engine, to measure them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "core/random.h"
#include "core/step_parts.h"
#include "exec/device_model.h"
#include "exec/profile/step_item.h"
#include "sched/step_plan.h"

namespace twin::exec {

struct SyntheticStepsConfig {
  DType kv_dtype = DType::kFp32;
  std::int32_t block_size = 16;
  std::int64_t tokens = 0;  // of all items of a step together, for which the cache has room
  std::int32_t items = 0;   // of one step, at most; each may leave a block partly filled
  std::uint64_t seed = 1;
  bool returns_logits = false;  // copying them takes time that serving does not
};

// Number of blocks that the cache needs.
std::int64_t CacheBlocks(const SyntheticStepsConfig& config);

// The cache holds random numbers at first. Blocks are drawn from all of it, as after a long run.
class SyntheticSteps {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory.
  SyntheticSteps(DeviceModel& model, const SyntheticStepsConfig& config);

  // Executes one step; its duration is the sum of its parts.
  // REQUIRES: positions within the model's, the items' blocks within the cache.
  StepParts Run(std::span<const StepItem> items);

  // Executes `steps` steps in which every request decodes. In the first one, each has `context`
  // tokens in the cache, and one more in each further step. Returns the sums of the parts.
  StepParts RunDecodes(std::int32_t batch, std::int32_t context, std::int32_t steps);

  // Number of blocks that a step of these items takes.
  [[nodiscard]] std::int64_t BlocksOf(std::span<const StepItem> items) const;
  [[nodiscard]] const kernels::KvCacheView& cache() const { return executor_->device_cache(); }
  // The logits of the latest step; empty unless the configuration returns them.
  [[nodiscard]] std::span<const LogitRow> logits() const { return logits_; }

 private:
  struct Allocation {
    RequestId request{};
    std::int32_t blocks = 0;
  };

  void Open(std::span<const StepItem> items);
  void Close();
  // Adds blocks to `plan` until they cover `tokens` tokens of an open request.
  void Cover(Allocation& allocation, std::int32_t tokens, StepPlan& plan);
  StepParts Execute(std::span<const StepItem> items);

  SyntheticStepsConfig config_;
  std::unique_ptr<Executor> executor_;
  std::span<const LogitRow> logits_;
  Random random_;
  std::vector<std::int32_t> prompt_;  // random tokens; a request takes the first of them
  std::vector<BlockId> free_;         // all blocks; the first taken_ are in use
  std::size_t taken_ = 0;
  std::vector<Allocation> open_;
  std::uint32_t next_request_ = 0;
  StepPlan plan_;
};

}  // namespace twin::exec
