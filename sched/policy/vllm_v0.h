// vLLM V0: prefill-only or decode-only steps (or chunked prefill), watermark, recompute or swap.
//
// The scheduler that came with paged attention. A step carries either whole prompts or decodes:
// while a waiting request can be admitted, prefill goes first and decodes stall. Blocks for all
// known tokens are taken at admission, further ones token by token; when none is free, the latest
// running request is preempted, by dropping its blocks or by moving them to the host. With
// enable_chunked_prefill a step carries decodes first and chunks of prompts after them.
//
// Source: Kwon et al., SOSP'23; vLLM, revision d003f3ea (2024-12-27), decisions observed. Field
// names are vLLM's.
//
// Easy to get wrong:
// - A decode is granted only while a block is free, whether or not it needs one.
// - An admission leaves the watermark free; growth does not. A request that could not leave the
//   watermark free in an empty cache is rejected.
// - While anything is swapped out nobody is admitted (unless chunked), and nothing is swapped in in
//   a step that preempted.
// - Victims are collected latest first and put in front of the queue in that order, so the earliest
//   ends up at the head; swapped ones go to the back of their queue in that order.
// - Priority: the waiting queue is sorted only in steps that admitted nobody, and the victims of
//   ForcePreemptions make room for a head that is admitted in a later step.
// - With speculation every decode wants slots for all drafts after its tokens (lookahead), whatever
//   proposes them and however few it gets; the token budget counts one token for it. The blocks
//   that an append touches are counted from the tokens known at the append before.
// - A running prompt must leave the same slots free, although it takes none.
// - Where the swap space is full, a victim is preempted by recompute (vLLM V0 aborts).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ring_queue.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"
#include "sched/policy/speculation.h"
#include "sched/policy/starvation_watch.h"
#include "sched/policy/waiting_queue.h"

namespace twin {

struct VllmV0Config {
  static constexpr const char* kName = "vllm_v0";

  enum class PreemptionMode : std::uint8_t { kRecompute, kSwap };
  // Token budget of a step, >= max_model_len unless chunked. 0 = vLLM's default: 2048, or
  // max_model_len where that is more and nothing is chunked.
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_model_len = 0;  // tokens of one request; 0 = the model's context
  double watermark = 0.01;         // share of blocks that an admission leaves free
  PreemptionMode preemption_mode = PreemptionMode::kRecompute;
  bool enable_chunked_prefill = false;
  QueueOrder policy = QueueOrder::kFcfs;
  std::optional<OrderConfig> order = {};  // of admission, not vLLM's; with kFcfs as `policy`
  // Running requests from which on no drafts are verified; 0 = no such limit.
  std::int32_t speculative_disable_by_batch_size = 0;
  SpeculationRules speculation = {};

  static constexpr ContextField kContextField = {"max_model_len", &VllmV0Config::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  void ValidateStartUp() const;
  // max_num_batched_tokens, once max_model_len is known.
  void ResolveBudget();
  static std::span<const CaseName> CaseNames();
  bool operator==(const VllmV0Config&) const = default;
};

class VllmV0Policy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool.
  VllmV0Policy(const VllmV0Config& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  struct Grant {
    RequestId id{};
    std::int32_t tokens = 0;
  };
  using Grants = std::vector<Grant>;

  void PlanDefault(StepBuilder& step);
  void PlanChunked(StepBuilder& step);
  void ForcePreemptions(StepBuilder& step);
  void RunningPass(StepBuilder& step);
  bool GrantPlainDecodes(StepBuilder& step);
  bool MakeRoom(StepBuilder& step, RequestId id);
  void Preempt(StepBuilder& step, RequestId id);
  void SwappedPass(StepBuilder& step);
  void WaitingPass(StepBuilder& step);
  [[nodiscard]] std::int32_t Lookahead() const {
    return config_.speculation.num_speculative_tokens;
  }
  // Tokens for which the sequence has slots when it is scheduled next.
  [[nodiscard]] std::int32_t CoveredTokens(const Sequence& s) const {
    return s.known + (s.decodes ? Lookahead() : 0);
  }
  [[nodiscard]] std::int32_t TouchedBlocks(const Sequence& s, const KvPool& pool) const;
  void TakeSlots(StepBuilder& step, const Sequence& s);
  void ForgetSlots(RequestId id);
  [[nodiscard]] bool VerifiesDrafts() const;
  [[nodiscard]] std::int32_t PrefillTokens(const Sequence& s) const;
  [[nodiscard]] bool FitsBudget(std::int32_t tokens) const;
  void Charge(std::int32_t tokens);
  void Issue(StepBuilder& step, const Grants& grants) const;
  void Run(const Grants& grants);
  void IssueDecodes(StepBuilder& step, const std::vector<RequestId>& ids) const;
  void RunDecodes(const std::vector<RequestId>& ids);

  VllmV0Config config_;
  PolicyTraits traits_;
  std::int32_t watermark_blocks_;
  std::int32_t prompt_limit_;
  OrderedQueue waiting_;
  std::vector<RequestId> running_;
  RingQueue<RequestId> swapped_;
  StarvationWatch starvation_;
  IdMap<std::int32_t> placed_;  // with speculation: tokens known when slots were taken last
  // Scratch of the present call: the part of the budget that is used, and the requests granted.
  std::int32_t tokens_ = 0;
  std::int32_t sequences_ = 0;
  std::vector<RequestId> decodes_;  // of running sequences, a token each
  Grants prefills_;                 // of running sequences
  std::vector<RequestId> resumed_decodes_;
  Grants resumed_prefills_;
  Grants admitted_;
  std::vector<RequestId> preempted_;  // latest first
  std::vector<RequestId> swapped_out_;
  std::vector<RequestId> by_priority_;
  std::vector<RequestId> visiting_;  // running requests; visited up to next_
  std::size_t next_ = 0;
};

}  // namespace twin
