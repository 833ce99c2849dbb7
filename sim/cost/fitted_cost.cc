#include "sim/cost/fitted_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/check.h"
#include "core/input_error.h"
#include "sched/computed_rows.h"

namespace twin::sim {
namespace {

constexpr std::string_view kName = "cost.fitted";

[[noreturn]] void Refuse(const std::string& field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, fmt::format("{}.{}", kName, field), what);
}

void RequireTimes(const std::string& part, std::initializer_list<double> seconds) {
  for (const double value : seconds) {
    if (!(std::isfinite(value) && value >= 0)) {
      Refuse(part, fmt::format("has {}; allowed: 0 or more", value));
    }
  }
}

void RequireTimes(const std::string& part, const LinearPart& p) {
  RequireTimes(part, {p.base_s, p.per_item_s, p.per_token_s});
}

void RequireFactor(const std::string& field, double factor) {
  if (!(std::isfinite(factor) && factor > 0)) {
    Refuse(field, fmt::format("is {}; allowed: above 0", factor));
  }
}

// Checks before the members are built from it.
const FittedCostConfig& Checked(const FittedCostConfig& c, const ModelSpec& model,
                                const Parallelism& parallelism) {
  if (parallelism.devices() != 1) {
    Refuse("model",
           "was measured on one device; allowed: system.tensor_parallel 1 and "
           "system.pipeline_parallel 1");
  }
  if (c.parameters != TotalParameters(model)) {
    Refuse("parameters", fmt::format("is {} ({}), but system.model has {}", c.parameters, c.model,
                                     TotalParameters(model)));
  }
  if (c.weight_dtype != model.weight_dtype || c.kv_dtype != model.kv_dtype) {
    Refuse("weight_dtype", fmt::format("is {} with a KV cache of {}, but system.model_shape has {} "
                                       "with {}",
                                       Name(c.weight_dtype), Name(c.kv_dtype),
                                       Name(model.weight_dtype), Name(model.kv_dtype)));
  }
  if (!std::is_sorted(c.decode_buckets.begin(), c.decode_buckets.end())) {
    Refuse("decode_buckets", "do not ascend; allowed: ascending sizes");
  }
  RequireFactor("gemm_decode_factor", c.gemm_decode_factor);
  RequireFactor("gemm_prefill_factor", c.gemm_prefill_factor);
  RequireFactor("other_factor", c.other_factor);
  RequireFactor("decode_slowdown", c.decode_slowdown);
  RequireFactor("prefill_slowdown", c.prefill_slowdown);
  RequireTimes("gemm_base_s", {c.gemm_base_s});
  RequireTimes("other_base_s", {c.other_base_s});
  const AttentionPart& a = c.attention;
  RequireTimes("attention", {a.base_s, a.per_prefill_item_s, a.per_prefill_token_s,
                             a.per_prefill_context_token_s, a.per_prefill_pair_s,
                             a.per_decode_item_s, a.per_decode_context_token_s});
  RequireTimes("build", c.build);
  RequireTimes("sampling", c.sampling);
  RequireTimes("schedule", c.schedule);
  RequireTimes("delivery", c.delivery);
  RequireTimes("decode_probe_s", {c.decode_probe_s, c.prefill_probe_s});
  RequireTimes("per_swapped_block_s", {c.swap_latency_s, c.per_swapped_block_s});
  return c;
}

double Of(const LinearPart& part, double items, double tokens) {
  return part.base_s + part.per_item_s * items + part.per_token_s * tokens;
}

double At(const StepFeatures& x, Feature feature) { return x[static_cast<std::size_t>(feature)]; }

double Of(const AttentionPart& a, const StepFeatures& x, double prefill_items) {
  return a.base_s + a.per_prefill_item_s * prefill_items +
         a.per_prefill_token_s * At(x, Feature::kPrefillTokens) +
         a.per_prefill_context_token_s * At(x, Feature::kPrefillContext) +
         a.per_prefill_pair_s * At(x, Feature::kPrefillPairs) +
         a.per_decode_item_s * At(x, Feature::kDecodeItems) +
         a.per_decode_context_token_s * At(x, Feature::kDecodeContext);
}

}  // namespace

FittedCost::FittedCost(const FittedCostConfig& config, const ModelSpec& model,
                       const Parallelism& parallelism)
    : config_(Checked(config, model, parallelism)),
      features_(model, 1),
      gemm_layers_("gemm_layers", config.gemm_layers),
      gemm_head_("gemm_head", config.gemm_head),
      other_("other", config.other),
      swap_(config.swap_latency_s, config.per_swapped_block_s) {}

double FittedCost::SlowdownOf(const StepTotals& totals) const {
  return IsSingleTokenStep(totals) ? config_.decode_slowdown : config_.prefill_slowdown;
}

StepParts FittedCost::PartsOf(const StepPlan& plan) const {
  const StepTotals& totals = plan.totals;
  const auto items = static_cast<double>(plan.work.size());
  const auto tokens = static_cast<double>(totals.tokens());
  const auto rows = static_cast<double>(totals.logit_rows());
  const double slowdown = SlowdownOf(totals);
  StepParts parts;
  const auto set = [&](StepPart part, double seconds) {
    parts[part] = CostDuration(kName, slowdown * seconds);
  };
  set(StepPart::kSchedule, Of(config_.schedule, items, tokens));
  set(StepPart::kDelivery, Of(config_.delivery, items, tokens));
  double build = swap_.Seconds(plan);
  if (totals.tokens() > 0) {
    const StepFeatures x = features_(totals);
    const ComputedRows computed = ComputedRowsOf(totals, config_.decode_buckets);
    const double factor =
        IsSingleTokenStep(totals) ? config_.gemm_decode_factor : config_.gemm_prefill_factor;
    build += Of(config_.build, items, tokens);
    set(StepPart::kGemm, factor * (gemm_layers_.At(static_cast<double>(computed.tokens)) +
                                   gemm_head_.At(static_cast<double>(computed.logits))) +
                             config_.gemm_base_s);
    set(StepPart::kAttention, Of(config_.attention, x, static_cast<double>(totals.prefill_items)));
    set(StepPart::kOther, config_.other_factor * other_.At(static_cast<double>(computed.tokens)) +
                              config_.other_base_s);
    if (rows > 0) set(StepPart::kSampling, Of(config_.sampling, rows, 0));
  }
  set(StepPart::kBuild, build);
  return parts;
}

Duration FittedCost::HostTime(const StepPlan& plan) const {
  return CostDuration(
      kName, SlowdownOf(plan.totals) * Of(config_.schedule, static_cast<double>(plan.work.size()),
                                          static_cast<double>(plan.totals.tokens())));
}

Duration FittedCost::DeliveryTime(const StepPlan& plan) const {
  return CostDuration(
      kName, SlowdownOf(plan.totals) * Of(config_.delivery, static_cast<double>(plan.work.size()),
                                          static_cast<double>(plan.totals.tokens())));
}

void FittedCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  CHECK(stage_times.size() == 1);
  stage_times[0] = PartsOf(plan).device();
}

std::optional<StepParts> FittedCost::Parts(const StepPlan& plan) const { return PartsOf(plan); }

bool FittedCost::Covers(const StepTotals& totals) const {
  return totals.tokens() <= config_.tokens_max && totals.decode_items <= config_.decode_items_max &&
         totals.decode_context_tokens <= config_.decode_context_tokens_max &&
         totals.prefill_context_tokens <= config_.prefill_context_tokens_max;
}

}  // namespace twin::sim
