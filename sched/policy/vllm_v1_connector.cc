// vLLM V1 as the decoding side of a KV connector.
#include <algorithm>

#include "sched/policy/vllm_v1.h"
#include "sched/step_builder.h"

namespace twin {

void VllmV1Policy::AdmitArrived(StepBuilder& step, Call& call) {
  const auto admitted = [&](RequestId id) {
    const Sequence& s = step.sequence(id);
    const bool full = static_cast<std::int32_t>(running_.size()) == config_.max_num_active_seqs;
    if (s.remote != RemoteKv::kArrived || full || call.exhausted(draft_slots_)) return false;
    step.Admit(id);
    Issue(step, call, s, 1);
    running_.push_back(id);
    waiting_.Admitted(s);
    return true;
  };
  std::erase_if(awaited_, admitted);
}

// A transfer needs blocks for the whole prompt, and the one of the next token.
VllmV1Policy::Admission VllmV1Policy::TryAwait(StepBuilder& step, const Sequence& s,
                                               std::int32_t blocks, const CacheHit& hit) {
  const std::int32_t kept = running_.empty() ? 0 : watermark_blocks_;
  if (blocks + kept > step.pool().free()) return Admission::kStop;
  step.AwaitTransfer(s.id, hit.blocks, s.known);
  return Admission::kAwaited;
}

}  // namespace twin
