// The router of Hugging Face's Text Generation Inference (TGI): what its versions 2 and 3 share.
//
// The router owns the queue, the model server holds the running batch. New requests are prefilled
// by a call of their own: while it lasts, the running batch pauses. Afterwards the two batches are
// concatenated, and a decode follows before the queue is looked at again. A request is admitted
// only if all memory that it can ever need is there, so nothing is ever preempted.
// How many requests must wait before the running batch is interrupted depends on its size
// (waiting_served_ratio) and on how long ago the last interruption was (max_waiting_tokens).
// With chunking (version 3) new requests join the running batch in one step, and prompts are cut
// to what the token budget leaves.
//
// Source: the router of TGI 2 and 3 (backend.rs, queue.rs, block_allocator.rs), as in the policy
// notes, section 7.
//
// Easy to get wrong:
// - A decode is due only after a prefill that interrupted a batch. After the prefill that starts a
//   batch the queue is looked at again at once.
// - The minimum is checked twice: against the length of the queue, and against the number of
//   requests that fit. Too small a batch goes back into the queue, in order.
// - The minimum is rounded down in single precision, so a batch of up to 3 is interrupted by
//   every arrival at the default ratio of 0.3.
// - The prefill budget is rounded up to a multiple of the block size.
// - A prompt in progress computes at least one token in every step, beyond the budget if need be.
// - max_concurrent_requests counts all requests in the system, waiting or running. Who comes beyond
//   it is refused on arrival (HTTP 429), even if places are free before the next step. Requests
//   beyond max_total_tokens take no place: the router refuses them by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"
#include "sched/step_plan.h"

namespace twin {

// Options of the router; the configs of the versions set them.
struct TgiRouterOptions {
  bool allocates_blocks = false;  // version 3: memory is counted in blocks, not in rounded tokens
  bool chunks_prefills = false;   // version 3
  bool caches_prefixes = false;   // with chunks_prefills
  std::int32_t max_batch_prefill_tokens = 4096;
  std::int32_t max_batch_total_tokens = 0;  // prompts and outputs; 0 = what the KV cache holds
  std::int32_t max_batch_size = 0;          // requests; 0 = no limit
  double waiting_served_ratio = 0.3;
  std::int32_t max_waiting_tokens = 20;      // decodes after which any batch may interrupt
  std::int32_t max_total_tokens = 0;         // prompt + output of one request; 0 = no limit
  std::int32_t max_concurrent_requests = 0;  // waiting or running; 0 = no limit
  std::optional<OrderConfig> order = {};     // of admission, not TGI's
};

PolicyTraits TgiTraits(std::string_view policy, const TgiRouterOptions& options);

class TgiRouter : public Policy {
 public:
  [[nodiscard]] const PolicyTraits& traits() const final { return traits_; }
  void Enqueue(const Sequence& sequence) final;
  void Remove(const Sequence& sequence) final;
  void Plan(StepBuilder& step) final;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const final;

 protected:
  TgiRouter(const TgiRouterOptions& options, const PolicyTraits& traits);

 private:
  // How many new requests the running batch may be interrupted for.
  struct JoinLimits {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::int64_t prompt_tokens = 0;  // of all together
  };
  // A request that joins the batch in this step.
  struct Joining {
    RequestId id{};
    std::int32_t cached_blocks = 0;  // its prefix, found in the cache
    std::int32_t tokens = 0;         // of its prompt, in this step
  };
  // Memory of the requests that were collected for this step and are not yet admitted.
  struct Collected {
    std::int64_t prompt_tokens = 0;  // version 2: each prompt rounded up to blocks
    std::int64_t output_tokens = 0;  // version 2: rounded up to blocks
    std::int64_t blocks = 0;         // version 3
  };
  // A prompt of the running batch that is not computed to its end.
  struct OpenPrompt {
    RequestId id{};
    std::int32_t tokens = 0;  // in the next step
  };

  [[nodiscard]] JoinLimits LimitsNow(std::int32_t block_size) const;
  [[nodiscard]] bool IsTooLong(const Sequence& s) const;
  // Moves requests that fit from the queue to joining_; none if they are fewer than limits.least.
  void CollectJoining(StepBuilder& step, const JoinLimits& limits);
  // False if the memory for the head of the queue is missing.
  [[nodiscard]] bool Fits(const StepBuilder& step, const Sequence& s, Joining& joining,
                          Collected& collected) const;
  [[nodiscard]] std::optional<RejectReason> Refusal(const StepBuilder& step,
                                                    const Sequence& s) const;
  void Admit(StepBuilder& step, const Joining& joining);
  void ScheduleJoining(StepBuilder& step);
  void ContinueBatch(StepBuilder& step);
  void SizeOpenPrompts(const StepBuilder& step);
  // The blocks that max_batch_total_tokens allows.
  [[nodiscard]] std::int32_t BlocksMax(const KvPool& pool) const;

  TgiRouterOptions options_;
  PolicyTraits traits_;
  OrderedQueue waiting_;
  std::int32_t too_long_waiting_ = 0;     // of waiting_
  std::vector<RequestId> overload_;       // arrived while the system was full
  std::vector<RequestId> batch_;          // running, in order of admission
  std::vector<OpenPrompt> open_prompts_;  // of batch_, in its order
  std::vector<Joining> joining_;          // of the present call
  // Decodes since the latest prefill, plus one; not counted beyond max_waiting_tokens.
  std::int32_t waiting_tokens_ = 0;
  std::int32_t last_step_requests_ = 0;  // in the latest step, finished ones included
  bool decode_is_due_ = false;           // the latest step interrupted a running batch
};

}  // namespace twin
