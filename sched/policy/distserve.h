// DistServe: a context scheduler where prompts are computed, a decoding scheduler where they are
// continued.
//
// Both are first come, first served. The context stage batches whole prompts. Their blocks stay
// until the decoding stage has fetched them: while they leave no room, nobody is admitted, which is
// the back-pressure of a slow decoding stage. There, prefilled requests queue in a bridge; one is
// accepted, and its keys and values are fetched, while few blocks wait in accepted requests that
// have not joined the batch. Where memory runs short, the last request of the batch is swapped out.
//
// The policy acts on what an engine gets: prompts are the context stage's, prefilled requests
// (RemoteKv::kElsewhere) the decoding stage's. Only a request that is computed again makes one
// engine do both, prompts first.
//
// Source: Zhong et al., OSDI'24; LLMServe/DistServe, revision 80241434
// (context_stage_scheduler.py, decoding_stage_scheduler.py). Field names are DistServe's, with
// their stage in front.
//
// Easy to get wrong:
// - The decoding stage accepts before it forms the batch, and may take blocks that the batch would
//   have grown into: then that is swapped out.
// - The size of the head does not count in the share of waiting blocks: one request always fits.
// - A waiting request joins if its blocks fit although the blocks it holds are counted twice.
// - Swapped requests come first, in the order in which they left; while one does not fit, nobody
//   joins.
// - A request that was swapped out and fits again in the same iteration stays, at the end of the
//   batch: DistServe copies its blocks there and back.
//
// Otherwise than DistServe:
// - Transfers pass beside steps; DistServe's engine starts no step until they have ended. A request
//   joins when its keys and values have come.
// - Where the host is full, a request is preempted by recompute (DistServe stops).
// - Where nobody runs, the head of the waiting requests joins whenever its next block is free, and
//   nobody is accepted into that block (DistServe then waits for ever).
// - Prompts beyond context_max_tokens_per_batch, and requests beyond the cache, are rejected
//   (DistServe's queue stands still).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/case_name.h"
#include "sched/policy/context_field.h"
#include "sched/policy/policy.h"

namespace twin {

struct DistServeConfig {
  static constexpr const char* kName = "distserve";

  std::int32_t context_max_batch_size = 256;         // requests per step
  std::int32_t context_max_tokens_per_batch = 4096;  // prompt tokens per step
  std::int32_t decoding_max_batch_size = 256;
  std::int32_t decoding_max_tokens_per_batch = 8192;
  // Share of all blocks: while waiting requests hold as many, no request is accepted.
  double waiting_block_prop_threshold = 0.05;
  std::int32_t pipeline_parallel_size = 1;  // steps in flight, of disjoint batches
  std::int32_t max_model_len = 0;           // tokens of one request; 0 = the model's context

  static constexpr ContextField kContextField = {"max_model_len", &DistServeConfig::max_model_len};

  [[nodiscard]] PolicyTraits Traits() const;
  void Validate() const;
  // None: a scheduling case has one engine.
  static std::span<const CaseName> CaseNames() { return {}; }
  bool operator==(const DistServeConfig&) const = default;
};

class DistServePolicy final : public Policy {
 public:
  // `blocks` = usable blocks of the KV pool.
  DistServePolicy(const DistServeConfig& config, std::int32_t blocks);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override;

 private:
  // A batch of the pipeline.
  struct Slot {
    std::vector<RequestId> batch;  // in the order in which they joined
    std::optional<StepId> step;    // in flight
  };

  void Accept(StepBuilder& step);
  // Admits prompts; false if nobody can be admitted.
  [[nodiscard]] bool Prefill(StepBuilder& step, Slot& slot);
  void Decode(StepBuilder& step, Slot& slot);
  // These keep count of the blocks that stay free when all batches have grown.
  void ChooseVictims(const StepBuilder& step, Slot& slot, std::int32_t& room);
  void ChooseSwapped(StepBuilder& step, Slot& slot, std::int32_t& room);
  void AddWaiting(StepBuilder& step, Slot& slot, std::int32_t& room);
  void Swap(StepBuilder& step);
  // Blocks that the next tokens of all batches need beyond the blocks held.
  [[nodiscard]] std::int32_t MissingBlocks(const StepBuilder& step) const;
  [[nodiscard]] bool NobodyRuns() const;
  [[nodiscard]] bool IsFull(const Slot& slot) const { return slot.batch.size() >= batch_max_; }

  DistServeConfig config_;
  PolicyTraits traits_;
  std::size_t batch_max_;
  double waiting_blocks_max_;
  RingQueue<RequestId> prompts_;  // to be computed here
  RingQueue<RequestId> bridge_;   // computed elsewhere, not accepted
  RingQueue<RequestId> waiting_;  // accepted: keys and values are coming, or have come
  RingQueue<RequestId> swapped_;
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
  bool stands_still_ = false;  // the latest call changed nobody's place
  // Scratch of the present call.
  std::vector<RequestId> victims_;  // in the order in which they leave
  std::vector<RequestId> resumed_;
};

}  // namespace twin
