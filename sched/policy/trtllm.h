// TensorRT-LLM: in-flight batching by two schedulers, one for memory and one for the batch.
//
// In every step the capacity scheduler walks through the active requests, in order of arrival or in
// another one (order_config.h), and decides which of them may hold KV blocks; the micro-batch
// scheduler then takes from these as many as max_batch_size and max_num_tokens allow.
// - GUARANTEED_NO_EVICT: a new request is let in if the free blocks suffice for all requests to run
//   to their output limits. Blocks are taken step by step, but always counted to the end.
// - MAX_UTILIZATION: a request is let in if its next step fits. When one does not, the last started
//   request is paused: its blocks are freed, and its prompt and output are computed again later.
// - STATIC_BATCH: like GUARANTEED_NO_EVICT, but only while nobody decodes.
//
// Batch waiting, off by default, then holds prompts back for company: while somebody decodes, the
// prompts of a step wait if prompts and decodes together have fewer tokens than
// batch_wait_max_tokens_ratio x max_num_tokens, for at most batch_wait_timeout_iters steps. The
// first prompt after a release counts from zero.
//
// Source: capacityScheduler.cpp and microBatchScheduler.cpp of TensorRT-LLM (2025), as in the
// policy notes, section 8; beam width 1, no block reuse, one micro-batch.
//
// With max_attention_window, layers with windows have a pool of their own, of as many bytes as the
// other one. A request takes pages of it as it takes blocks, up to its window and one page more,
// and must find room in both pools.
//
// Another order than that of arrival decides which requests are let in, also paused ones, which did
// not fit, and which one MAX_UTILIZATION pauses: the last one in the order. No request is paused
// for one that is not running.
//
// Easy to get wrong:
// - GUARANTEED_NO_EVICT looks at decodes first, MAX_UTILIZATION at all requests in their order.
// - A victim ends the walk at its place: no request after it is considered, whatever it needs.
// - The first chunk takes the blocks of the whole prompt.
// - Without chunking, a prompt beyond the rest of the token budget ends the batch; decodes after
//   it wait, too.
// - Drafts (speculation) count in max_num_tokens: a decode whose drafts do not fit ends the batch.
//   GUARANTEED_NO_EVICT counts slots for them to the end; MAX_UTILIZATION only as far as the output
//   limit lets them be accepted. Prompts have none: the first are offered with the first token.
// - Chunks are sized only if the prompts do not fit. A cut prompt is rounded down to
//   chunk_unit_size, perhaps to nothing; a shorter prompt after it can start before it.
// - Batch waiting counts steps with held prompts, not the age of a prompt: one that comes late is
//   released with the first one. Chunks count as their whole prompts. Steps without decodes neither
//   count nor reset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/cache/kv_pool.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/order_config.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"
#include "sched/policy/speculation.h"
#include "sched/step_plan.h"

namespace twin {

struct SystemOfPolicy;

struct TrtllmConfig {
  static constexpr const char* kName = "trtllm";

  enum class Capacity : std::uint8_t { kGuaranteedNoEvict, kMaxUtilization, kStaticBatch };
  enum class Chunking : std::uint8_t { kNone, kFirstComeFirstServed, kEqualProgress };

  Capacity capacity_scheduler_policy = Capacity::kGuaranteedNoEvict;
  Chunking context_chunking_policy = Chunking::kNone;
  std::int32_t max_batch_size = 2048;  // requests that hold memory, and requests per step
  std::int32_t max_num_tokens = 8192;  // tokens per step, and the longest chunk
  std::int32_t chunk_unit_size = 0;    // cut chunks are multiples; 0 = a block, or all tokens
  std::int32_t max_seq_len = 0;        // prompt + output of one request; 0 = the model's context
  std::int32_t batch_wait_timeout_iters = 0;  // steps for which prompts are held back
  double batch_wait_max_tokens_ratio = 0;     // of max_num_tokens, from which they are not
  // Tokens that layers with windows keep of a request, in a pool of their own; 0 = all tokens, in
  // the blocks of the other layers.
  std::int32_t max_attention_window = 0;
  SpeculationRules speculation = {};
  std::optional<OrderConfig> order = std::nullopt;  // unset: fcfs

  static constexpr ContextField kContextField = {"max_seq_len", &TrtllmConfig::max_seq_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  // The window must be that of the layers: attention of another one would take another time.
  void RequireSystem(const SystemOfPolicy& system) const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const TrtllmConfig&) const = default;
};

class TrtllmPolicy final : public Policy {
 public:
  TrtllmPolicy(const TrtllmConfig& config, const KvPoolConfig& kv);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  struct Active {
    RequestId id{};
    std::int32_t blocks_at_end = 0;  // with prompt and output limit
  };
  // A prompt, or a part of it, in this step.
  struct Context {
    RequestId id{};
    std::int32_t remaining = 0;  // tokens to compute
    std::int32_t tokens = 0;     // of `remaining`, in this step
  };
  // Blocks, and pages of the window pool; these are 0 without such a pool.
  struct Room {
    std::int64_t blocks = 0;
    std::int64_t pages = 0;

    [[nodiscard]] bool Holds(const Room& needed) const {
      return needed.blocks <= blocks && needed.pages <= pages;
    }
    void Add(const Room& other) {
      blocks += other.blocks;
      pages += other.pages;
    }
    void Take(const Room& other) {
      blocks -= other.blocks;
      pages -= other.pages;
    }
  };

  // In another order than that of arrival: puts the requests that are active but not running back
  // into the queue.
  void ReturnWaiting(const StepBuilder& step);
  // If the next steps of all running requests do not fit, puts the last one in the order last.
  void SortIfShort(const StepBuilder& step);

  // The capacity schedulers: fill fitting_.
  void FitToTheEnd(StepBuilder& step);
  void FitNextStep(StepBuilder& step);
  // Pauses the last started request of active_[first, end) and returns its place; `end` if there is
  // none. Adds what it held to `free`.
  std::size_t PauseLast(StepBuilder& step, std::size_t first, std::size_t end, Room& free);
  // Rejects heads of the queue that can never run, and moves the next one to active_; false if the
  // queue is empty.
  bool Activate(StepBuilder& step);
  [[nodiscard]] std::optional<RejectReason> Refusal(const StepBuilder& step,
                                                    const Sequence& s) const;
  // True if no step can hold the request's prompt and output any more; it is rejected.
  bool RejectsOutgrown(StepBuilder& step, std::size_t place);

  // Blocks that the request holds at its end.
  [[nodiscard]] std::int32_t BlocksAtEnd(const KvPool& pool, const Sequence& s) const;
  // Blocks that the next step of the request adds.
  [[nodiscard]] std::int32_t BlocksOfNextStep(const KvPool& pool, const Sequence& s) const;
  // Room for a request that grows from `held` to `blocks` blocks.
  [[nodiscard]] Room Growth(std::int32_t held, std::int32_t blocks) const;
  [[nodiscard]] Room Free(const StepBuilder& step) const;
  // The offered drafts for which the next step of the decode has slots.
  [[nodiscard]] std::int32_t DraftsOf(const Sequence& s) const;

  // The micro-batch scheduler: fills contexts_ and decodes_.
  void SelectBatch(const StepBuilder& step);
  void SizeChunks(std::int32_t room, std::int32_t unit);
  void SizeInOrder(std::int32_t room, std::int32_t unit);
  void SizeEqually(std::int32_t room, std::int32_t unit);
  // Drops the prompts of the batch if they wait for company.
  void HoldPrompts(const StepBuilder& step);
  void ScheduleBatch(StepBuilder& step);

  TrtllmConfig config_;
  PolicyTraits traits_;
  std::int32_t pages_ = 0;      // of the window pool; 0 = there is none
  std::int32_t pages_max_ = 0;  // of one request
  OrderedQueue waiting_;
  std::vector<Active> active_;   // started, paused and let in, in order of arrival
  std::int32_t held_steps_ = 0;  // of batch waiting, since the latest release
  bool holds_ = false;           // the latest step held prompts back
  // Scratch of the present call.
  std::vector<RequestId> fitting_;
  std::int32_t blocks_of_waiting_ = 0;  // MAX_UTILIZATION: for requests of fitting_ without blocks
  std::vector<Context> contexts_;
  std::vector<RequestId> decodes_;
};

}  // namespace twin
