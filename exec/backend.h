// Interface of what computes the steps of a real world: a device, or several ranks with one each.
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

// A token that an item emitted; an item with drafts emits several. If its position already has a
// token, the token is not `fresh` and is ignored: a step in flight computed it a second time while
// its request was preempted.
struct SampledToken {
  RequestId request{};
  std::int32_t position = 0;
  std::int32_t token = 0;
  bool fresh = true;
  std::int32_t logprobs = 0;  // entries of the step's logprobs: the token's own, then alternatives
};

// Takes the log-probabilities of `token` off the front of `rest`. Called for each entry of a step's
// `sampled` in turn, where `rest` begins as the step's `logprobs`.
inline std::span<const kernels::TokenLogprob> TakeLogprobs(
    const SampledToken& token, std::span<const kernels::TokenLogprob>& rest) {
  const auto own = rest.first(static_cast<std::size_t>(token.logprobs));
  rest = rest.subspan(own.size());
  return own;
}

// A row of logits that a step computed: they predict the token after `position`.
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
  // The tokens of emitting items, in the order of the plan's work; valid until the backend's next
  // call.
  std::span<const SampledToken> sampled;
  LapTimer::Clock::time_point started;   // the device began
  LapTimer::Clock::time_point finished;  // the device ended
  StepParts parts;                       // of that time; schedule and delivery are zero
  // The rows of logits that the backend is configured to return, in order; valid as long as
  // `sampled`.
  std::span<const LogitRow> logits = {};
  // If the backend drafts: one entry for each emitting item, in the order of the plan's work; valid
  // as long as `sampled`.
  std::span<const ItemDrafts> drafts = {};
  // Log-probabilities of the sampled tokens whose requests ask for them, token after token; valid
  // as long as `sampled`.
  std::span<const kernels::TokenLogprob> logprobs = {};
};

// Keeps the tokens and the KV cache of open requests. Called from one thread at a time. Any call
// may throw a device error (std::bad_alloc, ...); no call may follow it.
class Backend {
 public:
  virtual ~Backend() = default;

  // Registers a request, which later plans may contain. The prompt includes the output so far, if
  // another backend began the request. The choice of a token depends only on its logits, the
  // request's parameters and its position (`sampling` need not contain the position), so other
  // requests do not change it.
  // REQUIRES: no request of this id is open; tokens below vocab.
  virtual void Open(RequestId id, std::span<const std::int32_t> prompt,
                    const kernels::SamplingParameters& sampling) = 0;
  // Forgets the request. REQUIRES: no step in flight (launched and not collected) and no later step
  // has work for it.
  virtual void Close(RequestId id) = 0;

  // Begins a step, or queues it after the steps launched before. Borrows the plan until the step
  // has been collected. REQUIRES: it follows from the plans launched before.
  virtual void Launch(const StepPlan& plan) = 0;
  // Waits for the oldest step launched. REQUIRES: there is one.
  virtual ComputedStep Collect() = 0;
  // False while Collect() would wait for a device or for other threads or ranks; meanwhile the
  // calling thread can launch a further step. REQUIRES: as Collect().
  virtual bool Collectable() { return true; }
  // How long the calling thread may sleep before it calls Collectable() again: short compared with
  // a step.
  [[nodiscard]] virtual std::chrono::microseconds RestBetweenQuestions() const {
    return std::chrono::microseconds(50);
  }

  // The KV cache, if any thread of this process may read it; else nullptr.
  [[nodiscard]] virtual const kernels::KvCacheView* readable_cache() const { return nullptr; }
  // Copies blocks from another backend's readable cache to the cache of this one, and waits for the
  // copies. REQUIRES: both caches are readable and have one shape; no step in flight writes to the
  // blocks.
  virtual void CopyBlocks(const kernels::KvCacheView& /*from*/,
                          std::span<const kernels::BlockCopy> /*copies*/) {
    CHECK(false);
  }
};

}  // namespace twin::exec
