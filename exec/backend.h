// What computes the steps of a real world: a device, or several ranks of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "core/check.h"
#include "core/ids.h"
#include "core/step_parts.h"
#include "exec/lap_timer.h"
#include "kernels/kv_copy.h"
#include "kernels/sampling.h"
#include "sched/step_plan.h"

namespace twin::exec {

// A token that an item emitted; an item with drafts emits several. A token at a position that
// already has one is not `fresh` and is ignored: a step in flight computed it a second time while
// its request was preempted.
struct SampledToken {
  RequestId request{};
  std::int32_t position = 0;
  std::int32_t token = 0;
  bool fresh = true;
  std::int32_t logprobs = 0;  // entries of the step's logprobs: the token's own, then alternatives
};

// Removes from the front of `rest`, a step's logprobs, those of the next token of its `sampled`.
inline std::span<const kernels::TokenLogprob> TakeLogprobs(
    const SampledToken& token, std::span<const kernels::TokenLogprob>& rest) {
  const auto own = rest.first(static_cast<std::size_t>(token.logprobs));
  rest = rest.subspan(own.size());
  return own;
}

// A row of logits of a step: they predict the token behind `position`.
struct LogitRow {
  RequestId request{};
  std::int32_t position = 0;
  std::span<const float> logits;
};

// Speculative decoding: what became of the drafts of an item that emitted, and what was drafted.
struct ItemDrafts {
  RequestId request{};
  std::int32_t accepted = 0;  // each is a sampled token of its own
  std::int32_t proposed = 0;  // for the request's next item
};

struct ComputedStep {
  // Of emitting items, in the order of the plan's work; valid until the backend's next call.
  std::span<const SampledToken> sampled;
  LapTimer::Clock::time_point started;   // the device began
  LapTimer::Clock::time_point finished;  // the device ended
  StepParts parts;                       // of the time between; schedule and delivery are zero
  // As far as the backend was made to keep them, in the order of the rows; valid as `sampled`.
  std::span<const LogitRow> logits = {};
  // Where the backend drafts: of emitting items, in the order of the plan's work; valid as
  // `sampled`.
  std::span<const ItemDrafts> drafts = {};
  // Of the sampled tokens whose requests ask for them, one behind the other; valid as `sampled`.
  std::span<const kernels::TokenLogprob> logprobs = {};
};

// Keeps the tokens and the KV cache of open requests. Called from one thread at a time. Any call
// may throw a device error (std::bad_alloc, ...); no call may follow it.
class Backend {
 public:
  virtual ~Backend() = default;

  // Registers a request, which later plans may contain. The prompt includes the output so far, if
  // another backend began it. A token is a function of its logits, the request's parameters and its
  // position (which `sampling` need not have): other requests do not change it.
  // REQUIRES: no request of this id is open; tokens below vocab.
  virtual void Open(RequestId id, std::span<const std::int32_t> prompt,
                    const kernels::SamplingParameters& sampling) = 0;
  // Forgets it. REQUIRES: no step launched and not collected, and no later one, carries work for
  // it.
  virtual void Close(RequestId id) = 0;

  // Begins a step, or queues it behind those launched before. Borrows the plan until the step has
  // been collected. REQUIRES: it follows from the plans launched before.
  virtual void Launch(const StepPlan& plan) = 0;
  // Waits for the oldest step launched. REQUIRES: there is one.
  virtual ComputedStep Collect() = 0;
  // False while Collect would wait for others than the calling thread, which could better launch
  // a further step. REQUIRES: as Collect.
  virtual bool Collectable() { return true; }
  // How long the calling thread may rest before it asks again: short against a step.
  [[nodiscard]] virtual std::chrono::microseconds RestBetweenQuestions() const {
    return std::chrono::microseconds(50);
  }

  // The KV cache, if any thread of this process may read it; else nullptr.
  [[nodiscard]] virtual const kernels::KvCacheView* readable_cache() const { return nullptr; }
  // Copies blocks of such a cache of another backend to the cache of this one, and waits for it.
  // REQUIRES: both have a readable cache, of one shape; no step that was launched and not collected
  // writes to the blocks.
  virtual void CopyBlocks(const kernels::KvCacheView& /*from*/,
                          std::span<const kernels::BlockCopy> /*copies*/) {
    CHECK(false);
  }
};

}  // namespace twin::exec
