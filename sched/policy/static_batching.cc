#include "sched/policy/static_batching.h"

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
  if (order) order->ValidateWithoutPreemption(kName);
}

PolicyTraits StaticConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.context_tokens_max = padded ? 0 : max_model_len;
  traits.outputs_end_at_context = true;
  traits.step_engine = "tgis";
  traits.sequences_per_step_max = max_batch_size;
  traits.preempts = false;
  if (order) order->SetTraits(traits);
  traits.reserves_context = !padded;
  traits.defers_release = padded;
  traits.delivery = padded ? Delivery::kBatchEnd : Delivery::kPerStep;
  return traits;
}

StaticPolicy::StaticPolicy(const StaticConfig& config)
    : config_(config),
      traits_(config.Traits()),
      waiting_(config.order.value_or(OrderConfig{})),
      batch_(config.padded, config.max_model_len) {
  if (!config.padded) RequireAtLeast("static.max_model_len", config.max_model_len, 1);
}

void StaticPolicy::Enqueue(const Sequence& sequence) { waiting_.PushArrival(sequence); }

void StaticPolicy::Remove(const Sequence& sequence) {
  if (!batch_.Remove(sequence.id)) waiting_.Erase(sequence);
}

void StaticPolicy::CollectReleases(std::vector<RequestId>& finished) {
  batch_.CollectReleases(finished);
}

std::optional<DecodeLimits> StaticPolicy::DecodeStreakLimits() const {
  if (!waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  return DecodeLimits{};  // until the first of the batch ends, even if requests wait
}

void StaticPolicy::Plan(StepBuilder& step) {
  if (batch_.running()) {
    batch_.Decode(step);
  } else {
    while (batch_.TryAddFront(step, waiting_, config_.max_batch_size)) {
    }
    batch_.Begin(step);
  }
  waiting_.ChargeStep(step);
}

}  // namespace twin
