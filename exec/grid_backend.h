// A backend of several ranks: rank 0 receives the plans, all ranks compute.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/backend.h"
#include "exec/comm/communicator.h"
#include "exec/rank_executor.h"

namespace twin::exec {

// Rank 0's end. Every call is told to the other ranks, which carry it out in the same order on
// their own heads and layers, with the same block ids. Launch() computes the first stage's part and
// passes it on, so that as many steps may be on their way as were launched and not collected.
class GridBackend final : public Backend {
 public:
  // Borrows both. `world` is the group of all ranks of the model's grid, of which the others are in
  // Follow(). Throws std::bad_alloc if the cache does not fit into memory.
  GridBackend(DeviceModel& model, Communicator& world, const RankExecutorConfig& config);
  // Lets the others return; where an exception unwinds this object, they are left to whoever
  // aborts the group.
  ~GridBackend() override;
  GridBackend(const GridBackend&) = delete;
  GridBackend& operator=(const GridBackend&) = delete;

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override;
  void Close(RequestId id) override;
  void Launch(const StepPlan& plan) override;
  ComputedStep Collect() override;
  bool Collectable() override { return executor_->Collectable(); }

 private:
  void TellAll(std::int32_t ranks);

  Communicator& world_;
  std::int32_t first_stage_ranks_;
  MessageWriter command_;
  std::optional<RankExecutor> executor_;
  int exceptions_;  // in flight when it was made
};

// Runs on every other rank: executes the calls of rank 0's backend until that is destroyed. An idle
// rank waits without a limit. Throws CommunicationError, std::bad_alloc.
void Follow(DeviceModel& model, Communicator& world);

}  // namespace twin::exec
