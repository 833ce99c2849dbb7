// vLLM V1: one token budget, running requests first, chunked prefill, recompute preemption.
//
// There are no phases: each request tries to let `computed` catch up with `known`, and prefill,
// chunks, cache hits and decodes are all numbers of new tokens. A step serves the running requests
// in order of admission, each with as many tokens as it wants and the budget allows, and then the
// waiting ones, if nobody was preempted. Blocks are taken for the scheduled tokens alone.
//
// Source: vLLM 0.15.1 (revision 1892993b) and 0.33.0, decisions observed. Field names are vLLM's.
//
// Easy to get wrong:
// - A running request that wants nothing is passed over, and later ones are still served; a waiting
//   head that does not fit ends the step. Strict order holds only among waiting requests.
// - The victim is the last running request, or the least important one under kPriority, which may
//   already be in this step: its tokens go back to the budget, and the index of the pass moves.
// - No block is kept in reserve unless `watermark` says so. 0.33.0 instead admits a request only if
//   its whole sequence would fit now.
// - Full blocks are published when they are planned, so a later request of the same step can hit
//   blocks that this very step computes.
// - Asynchronous scheduling plans the next step before the tokens of this one are back: a request
//   is not scheduled again once the tokens in flight are certain to end it, and 0.33.0 sets a
//   victim aside until all that it has in flight, chunks of its prompt included, has returned.
// - 0.33.0 with P pipeline stages has P batches in flight, and P + 1 with asynchronous scheduling.
//   Then a request that was given a token in one call is passed over in the next P - 1, so that
//   the batches in flight take turns; its count survives a preemption, and an admission ignores it.
//   Calls that plan nothing count, and take a place in the queue of batches.
// - Under an order that preempts, a step takes the places of as many running requests as the head
//   of the queue needs, and admits it in the same step.
// - With speculation a running request wants its offered drafts, too. They count in the budget,
//   which cuts off the last ones. A proposer with keys and values of its own needs further slots.
// - A request that another replica has prefilled (KV connector) is looked at once as a waiting one:
//   blocks are taken for its keys and values, and it is set aside until these have come. Then it
//   comes before all who wait, with one token to compute.
// - Sizing the KV cache reserves one block for vLLM's null block, of which the watermark is a
//   share, too.
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

namespace twin {

// In order. A release in between decides as the one before it (config/servers/vllm.cc).
enum class VllmV1Release : std::uint8_t {
  k0_15_1,
  k0_19_0,  // the gate of whole sequences
  k0_23_0,  // P + 1 batches in flight with asynchronous scheduling, slots for drafts at admission
  k0_24_0,  // keyless blocks return to the front of the free queue, watermark
  k0_28_0,  // victims wait for their results, rows of drafters, padding beside decodes
  k0_31_0,  // a lone request has no threshold, padding of cached prompts
  k0_33_0   // priority: the running pass goes on after its own victim, cadence of prefills
};

struct VllmV1Config {
  static constexpr const char* kName = "vllm_v1";

  VllmV1Release release = VllmV1Release::k0_33_0;
  std::int32_t max_num_batched_tokens = 2048;  // >= max_num_seqs; the token budget of a step
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 0;  // prompt + output tokens of one request; 0 = the model's
  QueueOrder policy = QueueOrder::kFcfs;
  bool enable_chunked_prefill = true;
  std::int32_t long_prefill_token_threshold = 0;  // largest chunk of one request; 0 = no limit
  bool enable_prefix_caching = false;
  bool async_scheduling = false;  // the next step is planned while one runs
  // Ignored by releases that lack them.
  bool scheduler_reserve_full_isl = true;  // admit only if the whole sequence would fit now
  bool long_prefill_token_threshold_adaptive = false;
  double watermark = 0.0;                      // share of blocks kept free while something runs
  std::int32_t prefill_schedule_interval = 1;  // steps between prefills; 1 = every step
  std::int32_t max_num_active_seqs = 0;        // 0 = max_num_seqs
  std::int32_t max_num_scheduled_tokens = 0;   // 0 = max_num_batched_tokens
  // Models whose layers keep different tokens (KvGroups): every how many tokens the prefix cache
  // keeps what such layers need of a prefix, besides ends of prompts; 0 = never, -1 = vLLM's null,
  // all that it can.
  std::int32_t prefix_cache_retention_interval = 0;
  std::int32_t pipeline_parallel_size = 1;  // steps in flight, and one more if asynchronous
  std::optional<OrderConfig> order = {};    // not vLLM's; with kFcfs as `policy`
  SpeculationRules speculation = {};

  static constexpr ContextField kContextField = {"max_model_len", &VllmV1Config::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  void ValidateStartUp() const;
  static std::span<const CaseName> CaseNames();
  bool operator==(const VllmV1Config&) const = default;
};

// The rules in which releases differ, by name.
struct VllmV1Rules {
  bool whole_sequence_gate = false;  // a waiting request needs room for all it must compute
  bool lone_request_lifts_threshold = false;
  bool self_preemption_goes_on = false;    // priority: the running pass continues after it
  bool any_earlier_victim_shifts = false;  // priority: also a victim that was not scheduled
  bool publishes_returned_tokens = false;
  bool waits_for_returning_tokens = false;  // a victim is set aside until its results are back
  // Asynchronous: pipeline_parallel_size + 1 batches in flight, between which requests take turns.
  bool staggers_pipeline = false;
  // Speculation: slots for the drafts also where nothing is computed yet; an admitted request that
  // has one token to compute is padded to the length of a request that verifies drafts.
  bool lookahead_at_admission = false;
  bool pads_lone_tokens = false;
  bool pads_cached_prompts = false;  // also where no running request is in the step
  bool counts_draft_slots = false;
};

class VllmV1Policy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool. REQUIRES: a config that Validate accepts.
  VllmV1Policy(const VllmV1Config& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;
  [[nodiscard]] bool WantsAnotherCall() const override { return turn_was_empty_; }

 private:
  // State of a pipeline whose requests take turns.
  struct Turns {
    std::int64_t calls = 0;
    IdMap<std::int64_t> due;            // the first call that may serve it as a running request
    RingQueue<std::int64_t> in_flight;  // the calls whose batches have not returned
    bool passed_over = false;           // a request was, in the present call
  };

  // One scheduler call.
  struct Call {
    std::int32_t budget = 0;  // tokens that may still be scheduled
    std::int32_t input = 0;   // tokens that the pass of the drafts' proposer can still take
    std::int32_t threshold = 0;
    bool preempted = false;
    bool held = false;     // prefill is held back in this step
    bool prefill = false;  // the step carries prefill
    bool pads = false;     // admitted requests may be padded
    bool decodes = false;  // the step carries running requests

    [[nodiscard]] bool exhausted(std::int32_t slots) const { return budget <= 0 || input <= slots; }
  };

  void PlanCall(StepBuilder& step);
  // Whether the next call finds a place in the queue of batches. A call that planned nothing takes
  // a place, too.
  [[nodiscard]] bool HasPlace() const;
  [[nodiscard]] bool takes_turns() const { return turn_interval_ > 1; }
  void RunningPass(StepBuilder& step, Call& call);
  void WaitingPass(StepBuilder& step, Call& call);
  enum class Admission : std::uint8_t { kAdmitted, kSetAside, kAwaited, kRejected, kStop };
  // Admits the requests whose keys and values have come from another replica.
  void AdmitArrived(StepBuilder& step, Call& call);
  Admission TryAwait(StepBuilder& step, const Sequence& s, std::int32_t blocks,
                     const CacheHit& hit);
  Admission TryAdmit(StepBuilder& step, Call& call, RequestId id);
  enum class Room : std::uint8_t { kMade, kSelfPreempted };
  Room MakeRoom(StepBuilder& step, Call& call, RequestId id, std::int32_t tokens,
                std::size_t& index);
  void PreemptForQueueHead(StepBuilder& step);
  void Preempt(StepBuilder& step, std::size_t index);
  [[nodiscard]] std::int32_t Threshold() const;
  [[nodiscard]] bool HoldsPrefill(const StepBuilder& step) const;
  [[nodiscard]] std::int32_t TokensWanted(const Sequence& s, const Call& call) const;
  // Shortens an item of `tokens` tokens so that states to be found again are those at ends of
  // items. 0: too few tokens may be computed now. `junction`: GroupTables.
  [[nodiscard]] std::int32_t CutForStates(const StepBuilder& step, const Sequence& s,
                                          std::int32_t start, std::int32_t tokens,
                                          std::int32_t junction) const;
  // Tokens for which a sequence needs blocks once `tokens` are computed.
  [[nodiscard]] std::int32_t TokensNeedingBlocks(std::int32_t tokens) const;
  // Drafts of padding for a request to be admitted of which `base` tokens are in the cache.
  [[nodiscard]] std::int32_t Padding(const Call& call, const Sequence& s, std::int32_t base) const;
  void Issue(StepBuilder& step, Call& call, const Sequence& s, std::int32_t tokens);

  VllmV1Config config_;
  VllmV1Rules rules_;
  PolicyTraits traits_;
  std::int32_t draft_slots_;
  std::int32_t watermark_blocks_;
  OrderedQueue waiting_;
  std::vector<RequestId> running_;
  std::vector<RequestId> awaited_;    // their keys and values come from another replica; in order
  std::vector<RequestId> set_aside_;  // by the present call, in order
  // The cadence of prefill_schedule_interval, in steps that carried work.
  std::int64_t steps_with_work_ = 0;
  std::int64_t latest_prefill_step_;
  bool saturated_ = false;
  std::int32_t turn_interval_;  // calls between two that serve a request with a token each
  Turns turns_;                 // if takes_turns()
  bool turn_was_empty_ = false;
};

}  // namespace twin
