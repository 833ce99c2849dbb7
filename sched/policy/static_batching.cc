#include "sched/policy/static_batching.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr RenamedParameter kStaticFromSarathi[] = {{"max_num_seqs", "max_batch_size"},
                                                   {"pipeline_parallel_size", ""},
                                                   {"watermark", ""},
                                                   {"watermark_blocks", ""}};
constexpr CaseName kStaticCaseNames[] = {
    {.name = "static"},
    {.name = "static_padded", .parameters = R"({"padded": true})"},
    {.name = "sarathi_static",
     .parameters = R"({"padded": false})",
     .renamed = kStaticFromSarathi}};

}  // namespace

std::span<const CaseName> StaticConfig::CaseNames() { return kStaticCaseNames; }

void StaticConfig::Validate() const {
  RequireAtLeast("static.max_batch_size", max_batch_size, 1);
  RequireAtLeast("static.max_model_len", max_model_len, 0);
}

void StaticConfig::ResolveContext(std::int32_t model_tokens) {
  if (max_model_len == 0) max_model_len = model_tokens;
}

void StaticConfig::ValidateContext(std::int32_t model_tokens) const {
  RequireWithinModel("static.max_model_len", max_model_len, model_tokens);
}

PolicyTraits StaticConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = padded ? 0 : max_model_len;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = false;
  traits.reserves_context = !padded;
  traits.defers_release = padded;
  traits.delivery = padded ? Delivery::kBatchEnd : Delivery::kPerStep;
  return traits;
}

StaticPolicy::StaticPolicy(const StaticConfig& config) : config_(config), traits_(config.Traits()) {
  if (!config.padded) RequireAtLeast("static.max_model_len", config.max_model_len, 1);
}

void StaticPolicy::Enqueue(const Sequence& sequence) {
  waiting_.PushArrival(sequence.id, sequence.priority);
}

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

std::optional<DecodeLimits> StaticPolicy::DecodeRunLimits() const {
  return DecodeLimits{};  // until the first of the batch ends, whoever waits
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
