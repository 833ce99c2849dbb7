#include "apps/validate/step_predictor.h"

#include <algorithm>
#include <string>

#include "core/input_error.h"
#include "sched/policy/sglang_config.h"
#include "sim/devices/profile_cost.h"

namespace twin::apps {
namespace {

// The i-th of `count` shares of a sum.
std::int32_t ShareOf(std::int64_t sum, std::int64_t count, std::int64_t i) {
  return static_cast<std::int32_t>(sum / count + (i < sum % count ? 1 : 0));
}

void AddPrefill(std::int32_t cached, std::int32_t tokens, StepPlan& plan) {
  plan.work.push_back({.start = cached, .tokens = tokens, .phase = Phase::kPrefill, .emits = true});
  StepTotals& totals = plan.totals;
  const std::int64_t length = tokens;
  const std::int64_t context = std::int64_t{cached} + length;
  ++totals.prefill_items;
  totals.prefill_tokens += length;
  totals.prefill_context_tokens += context;
  totals.prefill_attention_pairs += length * cached + length * (length + 1) / 2;
  totals.prefill_context_max = std::max(totals.prefill_context_max, context);
}

void AddDecode(std::int32_t context, StepPlan& plan) {
  plan.work.push_back({.start = context, .tokens = 1, .phase = Phase::kDecode, .emits = true});
  StepTotals& totals = plan.totals;
  const std::int64_t keys = std::int64_t{context} + 1;
  ++totals.decode_items;
  totals.decode_context_tokens += keys;
  totals.decode_context_max = std::max(totals.decode_context_max, keys);
}

[[noreturn]] void Refuse(const std::string& field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, "validate: --steps: " + field, what);
}

}  // namespace

void SetComposition(const StepRecord& record, StepPlan& plan) {
  plan.Clear();
  for (std::int64_t i = 0; i < record.prefill_requests; ++i) {
    AddPrefill(ShareOf(record.prefill_kv_tokens, record.prefill_requests, i),
               ShareOf(record.prefill_tokens, record.prefill_requests, i), plan);
  }
  for (std::int64_t i = 0; i < record.decode_requests; ++i) {
    AddDecode(ShareOf(record.decode_kv_tokens, record.decode_requests, i), plan);
  }
  plan.totals.emitting_items = record.prefill_requests + record.decode_requests;
}

StepPredictor::StepPredictor(const run::Deployment& deployment) : deployment_(deployment) {
  if (!deployment.groups.empty()) {
    Refuse("system.replica_groups", "is set; allowed: equal replicas");
  }
  if (deployment.cost->stages() > 1) {
    Refuse("system.pipeline_parallel", "must be 1: steps on several stages overlap");
  }
  if (deployment.config.speculation) {
    Refuse("speculation", "is set; allowed: none, as the records do not hold drafts");
  }
}

StepTiming StepPredictor::timing(const StepRecords& records) const {
  const bool is_sglang = deployment_.config.policy.If<SglangConfig>() != nullptr;
  return records.device_times || is_sglang ? StepTiming::kDevice : StepTiming::kEndToEnd;
}

double StepPredictor::GapOf(TimePoint begin, const sim::DeviceState& state) const {
  const auto* const profile = dynamic_cast<const sim::ProfileCost*>(deployment_.cost.get());
  if (profile == nullptr) return 0;  // other models add their host to no step
  const double heat = profile->model().memory().Rested(state, begin);
  return profile->model().Times(plan_.totals, 0, heat, Seconds(state.last_step)).gap;
}

StepPredictor::Time StepPredictor::Predict(const StepRecord& record, StepTiming timing,
                                           TimePoint begin, const sim::DeviceState& state) {
  SetComposition(record, plan_);
  const sim::StepCost& cost = *deployment_.cost;
  const double device = Seconds(cost.StageTime(plan_, 0, begin, state));
  const double gap = std::max(GapOf(begin, state), 0.0);
  if (timing == StepTiming::kDevice) return {device - gap, gap};
  const double host = Seconds(cost.HostTime(plan_) + cost.DeliveryTime(plan_));
  // With several steps in flight, the host prepares a step while the device computes the one
  // before.
  const bool overlaps = deployment_.traits.steps_in_flight_max > 1;
  return {overlaps ? std::max(device, host) : device + host, gap};
}

void StepPredictor::Advance(TimePoint begin, TimePoint end, sim::DeviceState& state) const {
  deployment_.cost->Advance(plan_, begin, end, state);
}

}  // namespace twin::apps
