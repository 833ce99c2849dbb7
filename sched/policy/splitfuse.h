// DeepSpeed-MII Dynamic SplitFuse: decodes first, prompts split and fused to fill every pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ring_queue.h"
#include "sched/policy/policy.h"
#include "sched/policy/starvation_watch.h"

namespace twin {

// Field names are DeepSpeed-MII's. Source: revision 8abdd987, decisions observed.
struct SplitFuseConfig {
  std::int32_t max_ragged_batch_size = 768;      // tokens per pass
  std::int32_t max_ragged_sequence_count = 512;  // sequences per pass
  std::int32_t max_length = 8192;                // prompt limit

  [[nodiscard]] PolicyTraits Traits() const;
  bool operator==(const SplitFuseConfig&) const = default;
};

// Memory: blocks are taken chunk by chunk, but a prompt starts or continues only if all that is
// left of it would fit now. A decode without a free block waits; only if nothing at all can run is
// a request evicted. A finished request keeps its blocks until its flush in the next pass.
class SplitFusePolicy final : public Policy {
 public:
  explicit SplitFusePolicy(const SplitFuseConfig& config);

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;

 private:
  void DecodePass(StepBuilder& step);
  void PromptPass(StepBuilder& step);
  void EvictLast(StepBuilder& step);
  void Continue(StepBuilder& step, std::size_t index);

  SplitFuseConfig config_;
  PolicyTraits traits_;
  std::vector<RequestId> buffer_;      // what the scheduler works on, in order
  std::vector<RequestId> arrived_;     // since the latest pass was planned
  std::vector<RequestId> continuing_;  // decodes of the pass that returned, in batch order
  std::vector<RequestId> flushes_;     // finished, still holding blocks
  StarvationWatch starvation_;
  // Of the present call.
  std::vector<RequestId> unserved_;   // by the decode pass
  std::vector<RequestId> kept_;       // the next buffer
  std::int32_t free_blocks_ = 0;      // when the call began
  std::int32_t promised_blocks_ = 0;  // taken from them so far
  std::int32_t tokens_ = 0;
  std::int32_t sequences_ = 0;
};

}  // namespace twin
