#include "exec/rank_executor.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace twin::exec {
namespace {

// Each later stage computes about as long as the first one. Collectable() lets the later stages be
// silent for the sum of these times, multiplied by this factor, and at least for kAskedLeast.
constexpr std::int32_t kPatienceFactor = 4;
constexpr auto kAskedLeast = std::chrono::seconds(10);

}  // namespace

StepParts JoinStages(const StepParts& first, const StepParts& last, Duration whole) {
  StepParts sum = first;
  sum[StepPart::kSampling] = Duration{0};
  for (std::size_t part = 0; part < kStepPartCount; ++part) sum.times[part] += last.times[part];
  sum[StepPart::kBuild] = first[StepPart::kBuild];
  Duration& communication = sum[StepPart::kCommunication];
  communication = Duration{0};
  communication = whole - sum.device();
  if (communication < Duration{0}) {
    // The first stage was held up after its send, while the last one computed.
    sum[StepPart::kOther] += communication;
    communication = Duration{0};
  }
  return sum;
}

RankExecutor::RankExecutor(DeviceModel& model, const RankExecutorConfig& config)
    : model_(model), config_(config), executor_(model.MakeExecutor(config.executor)) {}

void RankExecutor::Open(RequestId id, std::span<const std::int32_t> prompt,
                        const kernels::SamplingParameters& sampling) {
  executor_->Open(id, prompt, sampling);
  prompt_tokens_.OpenInAnyOrder(id) = static_cast<std::int32_t>(prompt.size());
}

void RankExecutor::Close(RequestId id) {
  executor_->Close(id);
  prompt_tokens_.Close(id);
}

void RankExecutor::Execute(const StepPlan& plan) {
  const GridPlace& place = model_.links().place;
  // An asynchronous engine may have planned the step before tokens of steps in flight were known.
  if (place.first_stage()) {
    while (!executor_->HasTokensFor(plan)) ReceiveResult();
  }
  executor_->Launch(plan);
  const ComputedStep step = executor_->Collect();
  StepResult result;
  result.sampled.assign(step.sampled.begin(), step.sampled.end());
  result.logprobs.assign(step.logprobs.begin(), step.logprobs.end());
  result.started = step.started;
  result.finished = step.finished;
  result.parts = step.parts;
  if (place.last_stage()) KeepLogits(step.logits, result);
  if (place.last_stage() && staged()) return SendResult(result);
  if (!place.first_stage()) return;
  steps_.PushBack(std::move(result));
  if (!staged()) ++complete_;
}

void RankExecutor::KeepLogits(std::span<const LogitRow> rows, StepResult& result) const {
  if (!config_.keeps_prompt_logits) return;
  for (const LogitRow& row : rows) {
    if (row.position >= prompt_tokens_[row.request]) continue;
    result.rows.push_back(row);
    result.logits.insert(result.logits.end(), row.logits.begin(), row.logits.end());
  }
  std::span<const float> rest = result.logits;
  for (LogitRow& row : result.rows) {
    row.logits = rest.first(row.logits.size());
    rest = rest.subspan(row.logits.size());
  }
}

void RankExecutor::SendResult(const StepResult& result) {
  outgoing_.Clear();
  outgoing_.PutList(result.sampled);
  outgoing_.PutList(result.logprobs);
  outgoing_.Put(result.parts);
  outgoing_.Put(static_cast<std::uint64_t>(result.rows.size()));
  for (const LogitRow& row : result.rows) {
    outgoing_.Put(row.request);
    outgoing_.Put(row.position);
  }
  outgoing_.PutList(result.logits);
  SendSized(*model_.links().stages, outgoing_.bytes(), 0);
}

void RankExecutor::ReceiveResult() {
  CHECK(complete_ < steps_.size());
  ReceiveSized(*model_.links().stages, model_.links().place.grid.pipeline - 1, Patience::kBounded,
               incoming_);
  StepResult& step = steps_[complete_++];
  MessageReader message(incoming_);
  message.GetList(step.sampled);
  message.GetList(step.logprobs);
  const auto far = message.Get<StepParts>();
  step.rows.resize(static_cast<std::size_t>(message.Get<std::uint64_t>()));
  for (LogitRow& row : step.rows) {
    row.request = message.Get<RequestId>();
    row.position = message.Get<std::int32_t>();
  }
  message.GetList(step.logits);
  message.End();
  const auto width = static_cast<std::size_t>(model_.config().shape.vocab);
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    step.rows[i].logits = std::span<const float>(step.logits).subspan(i * width, width);
  }
  for (const SampledToken& sampled : step.sampled) executor_->StoreToken(sampled);
  step.finished = LapTimer::Clock::now();
  step.parts = JoinStages(step.parts, far,
                          std::chrono::duration_cast<Duration>(step.finished - step.started));
}

bool RankExecutor::Collectable() {
  CHECK(!steps_.empty());
  const std::int32_t last = model_.links().place.grid.pipeline - 1;
  if (complete_ > 0) return true;
  if (model_.links().stages->HasMessage(last)) return true;
  const LapTimer::Clock::time_point now = LapTimer::Clock::now();
  if (asked_since_ == LapTimer::Clock::time_point{}) asked_since_ = now;
  const Duration normal = last * kPatienceFactor * steps_.front().parts.device();
  return now - asked_since_ > std::max<Duration>(kAskedLeast, normal);
}

const StepResult& RankExecutor::Collect() {
  CHECK(!steps_.empty());
  if (complete_ == 0) ReceiveResult();
  asked_since_ = {};
  collected_ = steps_.PopFront();
  --complete_;
  return collected_;
}

}  // namespace twin::exec
