#include "sched/policy/orca.h"

#include <algorithm>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/policy/length_limit.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr RenamedParameter kOrcaParameters[] = {{"n_slots", ""}};
constexpr RenamedParameter kOrcaFromSarathi[] = {{"max_num_seqs", "max_bs"},
                                                 {"pipeline_parallel_size", "n_workers"},
                                                 {"watermark", ""},
                                                 {"watermark_blocks", ""}};
constexpr CaseName kOrcaCaseNames[] = {
    {.name = "orca", .renamed = kOrcaParameters},
    {.name = "sarathi_orca",
     .parameters = R"({"reservation": "model", "prefills_first": true})",
     .renamed = kOrcaFromSarathi}};

}  // namespace

std::span<const CaseName> OrcaConfig::CaseNames() { return kOrcaCaseNames; }

void OrcaConfig::Validate() const {
  if (order) order->ValidateWithoutPreemption(kName);
}

PolicyTraits OrcaConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  traits.sequences_per_step_max = max_bs;
  traits.steps_in_flight_max = n_workers;
  if (n_workers > 1) traits.result_queue = ResultQueue::kPipeline;
  traits.preempts = false;
  if (order) order->SetTraits(traits);
  traits.reserves_context = reservation == Reservation::kModel;
  return traits;
}

OrcaPolicy::OrcaPolicy(const OrcaConfig& config)
    : config_(config), traits_(config.Traits()), waiting_(config.order.value_or(OrderConfig{})) {
  if (traits_.reserves_context) RequireAtLeast("orca.max_model_len", config.max_model_len, 1);
}

void OrcaPolicy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void OrcaPolicy::Remove(const Sequence& sequence) {
  if (std::erase(running_, sequence.id) == 0) waiting_.Erase(sequence);
}

std::optional<DecodeLimits> OrcaPolicy::DecodeStreakLimits() const {
  // With several steps in flight each has only a part of the running requests.
  if (config_.n_workers > 1 || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  // The head of the queue found no slot or too few blocks, and there will not be more.
  return DecodeLimits{.after_prompts = !config_.prefills_first, .after_ends = true};
}

void OrcaPolicy::Plan(StepBuilder& step) {
  const auto batch_max = static_cast<std::size_t>(config_.max_bs);
  selected_.clear();
  if (config_.n_workers == 1) {
    selected_ = running_;  // at most max_bs, and all at rest
  } else {
    for (const RequestId id : running_) {
      if (selected_.size() == batch_max) break;
      if (step.sequence(id).in_flight == 0) selected_.push_back(id);
    }
  }
  const std::size_t decodes = selected_.size();
  while (!waiting_.empty() && SelectHead(step)) {
  }
  if (config_.prefills_first) {
    for (std::size_t i = decodes; i < selected_.size(); ++i) Schedule(step, selected_[i]);
    ScheduleAll(step, {selected_.data(), decodes});
  } else {
    ScheduleAll(step, selected_);
  }
  waiting_.ChargeStep(step);
}

bool OrcaPolicy::SelectHead(StepBuilder& step) {
  const RequestId id = waiting_.front();
  const Sequence& s = step.sequence(id);
  const bool by_model = config_.reservation == OrcaConfig::Reservation::kModel;
  const bool too_long = by_model && s.prompt_tokens > config_.max_model_len;
  const std::int32_t blocks = step.pool().BlocksFor(
      by_model ? config_.max_model_len : LengthLimit(s, config_.max_model_len));
  if (too_long || blocks > step.pool().usable()) {
    step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
    waiting_.PopFront();
    return true;
  }
  if (blocks > step.pool().free()) return false;
  if (selected_.size() == static_cast<std::size_t>(config_.max_bs)) return false;
  step.Admit(id);
  CHECK(step.Reserve(id, blocks));
  waiting_.PopFront();
  waiting_.Admitted(s);
  running_.push_back(id);
  selected_.push_back(id);
  return true;
}

void OrcaPolicy::ScheduleAll(StepBuilder& step, std::span<const RequestId> ids) {
  while (!ids.empty()) {
    ids = ids.subspan(step.ScheduleDecodes(ids));
    if (ids.empty()) break;
    Schedule(step, ids.front());
    ids = ids.subspan(1);
  }
}

void OrcaPolicy::Schedule(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  CHECK(step.Grow(s, s.known));
  step.Schedule(s, s.known - s.computed);
}

}  // namespace twin
