// One rank's part of the steps that a grid of ranks computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ring_queue.h"
#include "exec/comm/message.h"
#include "exec/device_model.h"
#include "exec/lap_timer.h"

namespace twin::exec {

struct RankExecutorConfig {
  ExecutorConfig executor;
  bool keeps_prompt_logits = false;  // of the rows computed that belong to prompts
};

// The result of a step.
struct StepResult {
  std::vector<SampledToken> sampled;
  std::vector<kernels::TokenLogprob> logprobs;  // as ComputedStep's
  std::vector<LogitRow> rows;  // in `logits`, one behind the other; where prompt logits are kept
  std::vector<float> logits;
  LapTimer::Clock::time_point started;   // the first stage began
  LapTimer::Clock::time_point finished;  // the first stage had the result
  StepParts parts;                       // of the time between, as JoinStages says
};

// Where the time `whole` went, from the begin of the first stage until it had the result of the
// last. Of the last stage it counts what follows upon the first one's activations: its batch may
// have been built before they came. What passed otherwise, on the way and on stages between them,
// is communication; so is the first stage's sampling part, as it samples nothing. The parts sum to
// `whole`, and none is negative.
StepParts JoinStages(const StepParts& first, const StepParts& last, Duration whole);

// All ranks of a grid make the same calls, but for Collect, which the first stage's make. The last
// stage sends its tokens back to the first one, rank by rank.
class RankExecutor {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory.
  RankExecutor(DeviceModel& model, const RankExecutorConfig& config);

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling);
  void Close(RequestId id);

  // Computes this rank's part, and on a first stage waits for tokens that the step needs.
  void Execute(const StepPlan& plan);
  // Waits for the oldest step that was not collected yet. Valid until the next call.
  // REQUIRES: a first stage that executed it.
  const StepResult& Collect();
  // False while Collect would wait for the last stage; true behind so much of that as is no normal
  // computing, so that a caller who asks first comes to the limit of Collect's wait. REQUIRES: as
  // Collect.
  [[nodiscard]] bool Collectable();

 private:
  [[nodiscard]] bool staged() const { return model_.links().stages != nullptr; }
  void KeepLogits(std::span<const LogitRow> rows, StepResult& result) const;
  void SendResult(const StepResult& result);
  void ReceiveResult();

  DeviceModel& model_;
  RankExecutorConfig config_;
  std::unique_ptr<Executor> executor_;
  IdMap<std::int32_t> prompt_tokens_;
  RingQueue<StepResult> steps_;  // executed here, not collected
  std::size_t complete_ = 0;     // of these, whose result is here: the oldest
  StepResult collected_;
  LapTimer::Clock::time_point asked_since_ = {};  // while Collectable is false
  MessageWriter outgoing_;
  std::vector<std::byte> incoming_;
};

}  // namespace twin::exec
