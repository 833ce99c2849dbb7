// A backend that consists of several ranks: rank 0 receives the plans, all ranks compute.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/backend.h"
#include "exec/comm/communicator.h"
#include "exec/rank_executor.h"

namespace twin::exec {

// Rank 0's end. Sends every call to the other ranks, which execute it in the same order on their
// own heads and layers, with the same block ids. Launch() computes the first stage's part and
// passes it on, so that several steps may be in flight.
class GridBackend final : public Backend {
 public:
  // Borrows both. `world` is the group of all ranks of the model's grid; all ranks but this one are
  // in Follow(). Throws std::bad_alloc if the cache does not fit into memory.
  GridBackend(DeviceModel& model, Communicator& world, const RankExecutorConfig& config);
  // Lets the other ranks return from Follow(). Does nothing if an exception unwinds this object:
  // the code that aborts the group then ends the ranks.
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
  // Sends the command to the ranks 1 to ranks - 1.
  void SendToRanks(std::int32_t ranks);

  Communicator& world_;
  std::int32_t first_stage_ranks_;
  MessageWriter command_;
  std::optional<RankExecutor> executor_;
  int exceptions_;  // in flight when it was made
};

// Runs on every rank but rank 0: executes the calls of rank 0's backend until that backend is
// destroyed. An idle rank waits without a limit. Throws CommunicationError, std::bad_alloc.
void Follow(DeviceModel& model, Communicator& world);

}  // namespace twin::exec
