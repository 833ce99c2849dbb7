// vLLM V1 with models whose layers keep states: where chunks of prompts end.
#include <algorithm>

#include "sched/policy/vllm_v1.h"
#include "sched/step_builder.h"

namespace twin {

// A state can be found again if it was the running one at the end of an item, and at the end of a
// block.
std::int32_t VllmV1Policy::CutForStates(const StepBuilder& step, const Sequence& s,
                                        std::int32_t start, std::int32_t tokens,
                                        std::int32_t junction) const {
  const std::int32_t block = step.groups()->state_block();
  const std::int32_t prefill_end = std::max(s.prompt_tokens, s.known - 1);
  if (block == 0 || start >= prefill_end) return tokens;
  const auto last_boundary = [block](std::int32_t position) { return position / block * block; };
  const std::int32_t end = start + tokens;
  std::int32_t cut = end;
  if (end < prefill_end) {
    std::int32_t chunk_max = config_.max_num_scheduled_tokens;
    if (config_.long_prefill_token_threshold > 0) {
      chunk_max = std::min(chunk_max, config_.long_prefill_token_threshold);
    }
    const bool reaches_one = last_boundary(end) > start;
    if (!reaches_one && block <= chunk_max) return 0;
    if (reaches_one) cut = last_boundary(end);
  }
  if (start % block != 0) cut = std::min(cut, last_boundary(start) + block);
  // The last one that a request of the same tokens can hit, and one that others have shared.
  if (last_boundary(s.known - 1) > start) cut = std::min(cut, last_boundary(s.known - 1));
  if (start < junction && junction < end) {
    const std::int32_t whole = last_boundary(junction - start);
    if (whole > 0) cut = std::min(cut, start + whole);
  }
  return cut - start;
}

}  // namespace twin
