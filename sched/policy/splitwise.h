// Splitwise's machine-level scheduler: one rule for machines that prefill, that decode, and that do
// both.
//
// Prompts are computed whole, first come, first served, up to max_batch_tokens per step. Decodes
// take the rest of the step, as many as fit. Where prompts leave too little room, decodes lose
// their places; their keys and values stay in memory. A request that max_preemptions steps have
// left out comes first: this ageing bounds how long prompts can keep a decode from running.
//
// The policy acts on what an engine gets: in Splitwise's prompt pool prompts alone, in its token
// pool prefilled requests alone (RemoteKv::kElsewhere), in its mixed pool both
// (sched/route/mixed_pools.h). Alone, without disaggregation, it is a machine of the mixed pool.
//
// Order of a step: aged requests in order of arrival; prompts; decodes that lost their places;
// decodes of the latest step; decodes that have not begun, in order of arrival.
//
// Memory is reserved to completion: a request that decodes here takes the blocks of its prompt and
// of max_output_tokens when it is admitted, or before its keys and values are fetched. A prompt for
// another machine takes the blocks of the prompt.
//
// Sources: Patel et al., ISCA'24, section IV-B; Mutinifni/splitwise-sim, revision 8f99e7dc,
// instance.py (SplitwiseInstance) and task.py. Field names are the simulator's.
//
// Easy to get wrong:
// - The first request of a step is never too long; nobody else joins a prompt beyond
//   max_batch_tokens.
// - Steps that left a request out count for ever: one that has aged loses its place for a step at
//   most.
// - Prompts computed here and decoded here queue after all other decodes once, as in the
//   simulator, where both phases are tasks of their own.
//
// Otherwise than the simulator:
// - It knows output lengths; here max_output_tokens takes their place.
// - It takes memory for a transfer whether or not it is free. Here transfers wait, first come,
//   first served, and once the first one has aged, prompts leave it the memory.
// - A prompt that decodes here takes the memory of its output at once, not when its decoding
// begins.
// - It looks for aged requests only up to the first one that has not aged.
// - Where nobody runs and only prompts for other machines hold memory, prefilled requests that do
//   not fit are computed again here. Otherwise two machines could wait for each other for ever.
// - Requests beyond the cache are rejected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ring_queue.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/policy.h"

namespace twin {

struct SplitwiseConfig {
  static constexpr const char* kName = "splitwise";

  std::int32_t max_batch_size = 512;     // requests per step
  std::int32_t max_batch_tokens = 2048;  // tokens per step, unless one prompt alone is longer
  std::int32_t max_preemptions = 4;      // steps that may leave a request out before it comes first
  std::int32_t max_model_len = 0;        // tokens of one request; 0 = the model's context

  static constexpr ContextField kContextField = {"max_model_len", &SplitwiseConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const SplitwiseConfig&) const = default;
};

class SplitwisePolicy final : public Policy {
 public:
  explicit SplitwisePolicy(const SplitwiseConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  struct Wait {
    bool waits = false;       // otherwise it is part of the latest step
    std::uint64_t since = 0;  // number of the first step that could have taken it in
    std::uint64_t steps = 0;  // that left it out before
  };

  // The step that is being planned.
  struct Selection {
    std::uint64_t number = 0;
    std::int32_t requests = 0;
    std::int32_t tokens = 0;
    bool prompts_end = false;  // the first prompt does not fit: no later one overtakes it
    bool changes = false;  // it differs from a repetition of the latest one, or the next one may
  };

  // Requests that have become ready to decode.
  void CollectReady(const StepBuilder& step);
  // Takes blocks for transfers; true if prompts must leave the memory to the next transfer.
  [[nodiscard]] bool AcceptTransfers(StepBuilder& step);
  // Where nothing else can end, transfers without blocks become prompts; true if there were any.
  [[nodiscard]] bool ForgoTransfers(StepBuilder& step);
  void TakeAged(StepBuilder& step);
  void TakePrompts(StepBuilder& step);
  // Takes in the first prompt, rejects it, or ends the prompts.
  void TakePrompt(StepBuilder& step);
  // False if the step is full.
  [[nodiscard]] bool TakeDecode(StepBuilder& step, RequestId id);
  // Moves the leading decodes into the step until it is full.
  void TakeDecodes(StepBuilder& step, std::vector<RequestId>& decodes);
  void ContinueBatch();
  void FinishSelection(StepBuilder& step);
  // Tokens for which a request that decodes here takes blocks.
  [[nodiscard]] std::int32_t ReservedTokens(const Sequence& s) const;
  [[nodiscard]] bool HasRoomFor(std::int32_t tokens) const;
  // REQUIRES: it waits.
  [[nodiscard]] bool HasAged(RequestId id) const;

  SplitwiseConfig config_;
  PolicyTraits traits_;
  RingQueue<RequestId> prompts_;     // to be computed here
  RingQueue<RequestId> bridge_;      // computed elsewhere, without blocks here
  std::vector<RequestId> arriving_;  // their keys and values are on their way
  std::vector<RequestId> computed_;  // their prompts were part of the latest step
  // Ready to decode, in the order in which a step takes them.
  std::vector<RequestId> paused_;  // lost their places, in this order
  std::vector<RequestId> batch_;   // part of the latest step
  std::vector<RequestId> fresh_;   // have not begun; by arrival
  IdMap<Wait> waits_;
  std::vector<RequestId> entered_;  // since the latest call
  bool stands_still_ = false;       // steps repeat until a request comes or leaves
  // Scratch of the present call.
  Selection now_;
  std::vector<RequestId> next_batch_;
  std::vector<RequestId> aged_;
};

}  // namespace twin
