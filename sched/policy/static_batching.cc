#include "sched/policy/static_batching.h"

#include <algorithm>

#include "core/check.h"
#include "sched/step_builder.h"

namespace twin {

PolicyTraits StaticConfig::Traits() const {
  PolicyTraits traits;
  traits.name = "static";
  traits.context_tokens_max = padded ? 0 : max_model_len;
  traits.outputs_end_at_context = true;
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = false;
  traits.defers_release = padded;
  traits.delivery = padded ? Delivery::kBatchEnd : Delivery::kPerStep;
  return traits;
}

StaticPolicy::StaticPolicy(const StaticConfig& config)
    : config_(config), traits_(config.Traits()) {}

void StaticPolicy::Enqueue(const Sequence& sequence) { waiting_.PushBack(sequence.id); }

void StaticPolicy::Remove(const Sequence& sequence) {
  if (std::erase(live_, sequence.id) == 0) {
    waiting_.Erase(sequence.id);
  } else if (config_.padded) {
    done_.push_back(sequence.id);
  }
}

void StaticPolicy::CollectReleases(std::vector<RequestId>& finished) {
  if (!live_.empty()) return;
  finished.swap(done_);
  done_.clear();
}

void StaticPolicy::Plan(StepBuilder& step) {
  if (live_.empty()) {
    if (config_.padded) {
      FormPaddedBatch(step);
    } else {
      FormTrimmedBatch(step);
    }
    return;
  }
  for (std::size_t i = 0; i < live_.size(); ++i) {
    i += step.ScheduleDecodes({&live_[i], live_.size() - i});
    if (i == live_.size()) break;
    const Sequence& s = step.sequence(live_[i]);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, 1);
  }
  for (const RequestId id : done_) step.PadRow(id, 1);
}

// True if the head can never be served; it is rejected.
bool StaticPolicy::RejectsHead(StepBuilder& step) {
  const Sequence& s = step.sequence(waiting_.front());
  const bool too_long = !config_.padded && s.prompt_tokens > config_.max_model_len;
  const std::int32_t tokens =
      config_.padded ? s.prompt_tokens + s.max_output_tokens : config_.max_model_len;
  if (!too_long && step.pool().BlocksFor(tokens) <= step.pool().usable()) return false;
  step.Reject(s.id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
  waiting_.PopFront();
  return true;
}

void StaticPolicy::FormPaddedBatch(StepBuilder& step) {
  std::int32_t prompt_max = 0;
  std::int32_t output_max = 0;
  std::int32_t row_blocks = 0;
  while (!waiting_.empty() && static_cast<std::int32_t>(live_.size()) < config_.max_batch_size) {
    if (RejectsHead(step)) continue;
    const Sequence& s = step.sequence(waiting_.front());
    const std::int32_t prompt = std::max(prompt_max, s.prompt_tokens);
    const std::int32_t output = std::max(output_max, s.max_output_tokens);
    const std::int32_t blocks = step.pool().BlocksFor(prompt + output);
    const auto rows = static_cast<std::int64_t>(live_.size()) + 1;
    if (rows * blocks > step.pool().free()) break;
    prompt_max = prompt;
    output_max = output;
    row_blocks = blocks;
    live_.push_back(waiting_.PopFront());
  }
  for (const RequestId id : live_) {
    step.Admit(id);
    CHECK(step.Reserve(id, row_blocks));
    const std::int32_t prompt = step.sequence(id).prompt_tokens;
    CHECK(step.Grow(id, prompt));
    step.Schedule(id, prompt, prompt_max);
  }
}

void StaticPolicy::FormTrimmedBatch(StepBuilder& step) {
  const std::int32_t row_blocks = step.pool().BlocksFor(config_.max_model_len);
  while (!waiting_.empty()) {
    if (RejectsHead(step)) continue;
    if (static_cast<std::int32_t>(live_.size()) == config_.max_batch_size) break;
    if (row_blocks > step.pool().free()) break;
    const RequestId id = waiting_.PopFront();
    step.Admit(id);
    CHECK(step.Reserve(id, row_blocks));
    const std::int32_t prompt = step.sequence(id).prompt_tokens;
    CHECK(step.Grow(id, prompt));
    step.Schedule(id, prompt);
    live_.push_back(id);
  }
}

}  // namespace twin
