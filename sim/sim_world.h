// The simulated world: jumps from event to event, steps take what a cost model says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/arrival_source.h"
#include "core/id_window.h"
#include "core/prefix_keys.h"
#include "core/traced_request.h"
#include "sched/world.h"
#include "sim/cost/step_cost.h"
#include "sim/event_queue.h"

namespace twin::sim {

struct SimWorldOptions {
  // Prompt + output tokens that the model can hold. An output ends where it is reached, with its
  // first token if the prompt alone reaches it. 0 = no limit.
  std::int32_t max_model_length = 0;
  // Tokens per KV block if blocks are to be named by content (prefix caching); 0 = they are not.
  std::int32_t named_block_size = 0;
};

// Time: int64 ns. A step waits for the host (one step at a time), then passes the pipeline's stages
// in order, each of which holds one step at a time; it ends when it leaves the last one. So bubbles
// between steps are visible, and with several steps in flight host time hides behind the devices.
// Equal times: all results, then arrivals, in one instant.
// Memory: proportional to the requests in the system.
class SimWorld final : public World {
 public:
  // Borrows the source and the cost model for its lifetime.
  SimWorld(ArrivalSource& source, const StepCost& cost, const SimWorldOptions& options);

  Instant Advance() override;
  void Launch(const StepPlan& plan) override;

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] std::uint32_t arrived() const { return next_id_; }

  // Begin and end of a step on one pipeline stage, for those who draw it.
  struct StageSpan {
    TimePoint begin;
    TimePoint end;
  };
  // Of the step launched last, by stage; empty if it took no device time.
  [[nodiscard]] const std::vector<StageSpan>& last_stages() const { return stage_spans_; }

 private:
  // What the engine must not see.
  struct Truth {
    std::int32_t remaining_tokens = 0;  // of output
    std::int32_t block_room = 0;        // tokens until a block to be named is full
    std::int32_t open_block = 0;        // the number of that block
    bool ends_at_limit = false;
    std::vector<std::uint64_t> chunks;  // what `content` speaks of
    NamedContent content;
  };
  struct RunningStep {
    const StepPlan* plan = nullptr;
    TimePoint started;
  };
  struct ReturnedStep {
    RunningStep step;
    std::size_t outcomes_end = 0;  // of its own in outcomes_
    std::size_t filled_end = 0;    // likewise
  };

  // Throws InputError (data) where the clock would leave its range.
  [[nodiscard]] static TimePoint After(TimePoint time, Duration duration);
  void TakeArrivals();
  void Announce(const TracedRequest& traced);
  void ReturnSteps();
  // A token more for each request that the plan computes to its end.
  void EmitTokens(const StepPlan& plan);
  // The token filled a block, was the request's last, or both.
  void CompleteParts(RequestId id, Truth& truth);

  ArrivalSource& source_;
  const StepCost& cost_;
  SimWorldOptions options_;
  TimePoint now_ = kTimeZero;
  std::uint32_t next_id_ = 0;
  IdWindow<Truth> truths_;
  EventQueue<RunningStep> steps_;
  TimePoint host_free_ = kTimeZero;
  TimePoint last_end_ = kTimeZero;
  std::vector<TimePoint> stage_free_;
  std::vector<Duration> stage_times_;
  std::vector<StageSpan> stage_spans_;
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<ReturnedStep> returned_;              // in this instant
  std::vector<std::vector<BlockKey>> prompt_keys_;  // of the arrivals of this instant, reused
  std::size_t prompt_keys_used_ = 0;
};

}  // namespace twin::sim
