// DeepSpeed-MII Dynamic SplitFuse: decodes first, prompts split and fused to fill every pass.
//
// The time of a forward pass depends on its tokens and hardly on its sequences, so every pass is to
// have the same number of tokens: all decodes, then prompts in order, the last one split so that
// the pass is exactly full. What is left of it goes to the front of the queue.
//
// Source: DeepSpeed-FastGen and DeepSpeed-MII, revision 8abdd987, decisions observed. Field names
// are DeepSpeed-MII's.
//
// Easy to get wrong:
// - Blocks are taken chunk by chunk, but a prompt starts or continues only if all that is left of
//   it would fit now. The first one that does not ends the pass for all prompts after it.
// - A decode without a free block waits, holding its memory. Only if nothing at all can run is a
//   request evicted: the last holder of blocks starts over as a new prompt at the back.
// - A finished request keeps its blocks until its flush in the next pass, after the decision of
//   that pass.
// - Decodes re-enter after the requests that arrived while the pass ran, so that with more decodes
//   than max_ragged_sequence_count they take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/policy.h"
#include "sched/policy/starvation_watch.h"

namespace twin {

struct SplitFuseConfig {
  static constexpr const char* kName = "splitfuse";

  std::int32_t max_ragged_batch_size = 768;      // tokens per pass
  std::int32_t max_ragged_sequence_count = 512;  // sequences per pass
  std::int32_t max_length = 0;                   // prompt limit; 0 = the model's context
  std::optional<OrderConfig> order = {};         // of new prompts, not DeepSpeed-MII's

  static constexpr ContextField kContextField = {"max_length", &SplitFuseConfig::max_length};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const SplitFuseConfig&) const = default;
};

// DeepSpeed-MII keeps all requests in one buffer. Here they are in three lists, so that a pass
// takes time for running requests and not for waiting ones: prompts that have begun stand first in
// that buffer, and the order between prompts and decodes decides nothing else.
class SplitFusePolicy final : public Policy {
 public:
  explicit SplitFusePolicy(const SplitFuseConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  enum class Offer : std::uint8_t { kWhole, kSplit, kKept };

  void TakeArrivals(StepBuilder& step);
  void DecodePass(StepBuilder& step);
  void PromptPass(StepBuilder& step);
  Offer OfferPrompt(StepBuilder& step, RequestId id);
  void EvictLast(StepBuilder& step);
  void Evict(StepBuilder& step, std::vector<RequestId>& holders);
  void ContinueLast(StepBuilder& step);

  SplitFuseConfig config_;
  PolicyTraits traits_;
  std::vector<RequestId> decoding_;    // decodes to schedule, in order
  std::vector<RequestId> started_;     // prompts that hold blocks, in order
  OrderedQueue fresh_;                 // prompts that hold no blocks, after started_
  std::vector<RequestId> arrived_;     // since the latest pass was planned, evicted ones first
  std::vector<RequestId> continuing_;  // decodes of the pass that returned, in batch order
  std::vector<RequestId> flushes_;     // finished, still holding blocks
  StarvationWatch starvation_;
  // Scratch of the present call.
  std::vector<RequestId> visiting_;
  std::vector<RequestId> split_;      // prompts of which a part is left
  std::vector<RequestId> skipped_;    // fresh prompts that later prompts overtook
  bool stopped_ = false;              // no further prompt is scheduled
  std::int32_t free_blocks_ = 0;      // when the call began
  std::int32_t promised_blocks_ = 0;  // taken from them so far
  std::int32_t tokens_ = 0;
  std::int32_t sequences_ = 0;
};

}  // namespace twin
