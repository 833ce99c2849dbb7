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
  bool keeps_prompt_logits = false;  // of all rows of prompts
};

// The result of a step.
struct StepResult {
  std::vector<SampledToken> sampled;
  std::vector<kernels::TokenLogprob> logprobs;  // as in ComputedStep
  std::vector<LogitRow> rows;                   // in `logits`; if prompt logits are kept
  std::vector<float> logits;
  LapTimer::Clock::time_point started;   // the first stage began
  LapTimer::Clock::time_point finished;  // the first stage had the result
  StepParts parts;                       // of that time, by JoinStages()
};

// Divides `whole`, the time from the begin of the first stage until it had the result of the last
// stage, into parts. They are the first stage's parts, plus the last stage's parts from the arrival
// of the activations on (its batch may have been built before). The rest of `whole`, on the way and
// on stages between, is communication; so is the first stage's sampling part, as it samples
// nothing. The parts sum to `whole`, and none is negative.
StepParts JoinStages(const StepParts& first, const StepParts& last, Duration whole);

// All ranks of a grid make the same calls, except Collect(), which only ranks of the first stage
// make. Each rank of the last stage sends its tokens to the rank of the first stage in its column.
class RankExecutor {
 public:
  // Borrows the model. Throws std::bad_alloc if the cache does not fit into memory.
  RankExecutor(DeviceModel& model, const RankExecutorConfig& config);

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling);
  void Close(RequestId id);

  // Computes this rank's part. On the first stage, waits for tokens that the step needs.
  void Execute(const StepPlan& plan);
  // Waits for the oldest step in flight. The result is valid until the next call.
  // REQUIRES: a rank of the first stage, which has executed a step that is not collected.
  const StepResult& Collect();
  // False while Collect() would wait for the last stage to compute. Becomes true when the last
  // stage has taken abnormally long, so that a caller who asks first still reaches the time limit
  // of Collect(). REQUIRES: as Collect().
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
  RingQueue<StepResult> steps_;  // executed here and not collected
  std::size_t complete_ = 0;     // the oldest `complete_` steps have their results
  StepResult collected_;
  LapTimer::Clock::time_point asked_since_ = {};  // while Collectable is false
  MessageWriter outgoing_;
  std::vector<std::byte> incoming_;
};

}  // namespace twin::exec
