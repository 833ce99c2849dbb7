#include "sim/cost/ffn_pool_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "sim/cost/ffn_pool_models.h"

namespace twin::sim {
namespace {

constexpr std::string_view kFfnName = "system.ffn";

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// ceil(sum x part / whole); 0 of nothing.
std::int64_t Portion(std::int64_t sum, std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : CeilDiv(sum * part, whole);
}

void RequireKnowsParts(const CostConfig& config, const char* field) {
  const CostTraits traits = TraitsOf(config);
  if (traits.prices_drafts) return;
  throw InputError(InputError::Kind::kUsage, fmt::format("{}.{}", field, traits.name),
                   "does not know the parts of a step, which system.ffn needs; allowed: roofline, "
                   "profile");
}

double BytesPerSecond(const FfnPoolLinkConfig& link, const HardwareSpec& hardware) {
  if (link.bandwidth_gbps) return *link.bandwidth_gbps * 1e9 / 8;
  return hardware.inter_node_bandwidth_bytes_per_s * hardware.link_bandwidth_fraction;
}

Duration LatencyOf(const FfnPoolLinkConfig& link, const HardwareSpec& a, const HardwareSpec& b) {
  const double sheets = std::max(a.inter_node_latency_s, b.inter_node_latency_s);
  return CostDuration(kFfnName, link.latency_us ? *link.latency_us * 1e-6 : sheets);
}

// Only the number of rows matters to an FFN, and whether there are chunks among them.
StepTotals RowsOf(const StepTotals& totals, std::int64_t rows) {
  if (totals.prefill_items == 0) return {.decode_items = rows};
  return {.prefill_tokens = rows, .prefill_items = 1};
}

struct StackTimes {
  Duration layer{0};
  Duration ends{0};
};

// `Models`: pointers to cost models or to timers of them.
template <class Models>
Duration TimeOf(const Models& models, std::size_t index, const StepPlan& plan) {
  Duration time{0};
  models[index]->DeviceTimes(plan, {&time, 1});
  return time;
}

template <class Models, class Stack>
StackTimes TimesOf(const Models& models, const Stack& stack, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  const Duration once = TimeOf(models, stack.once, plan);
  const Duration twice = TimeOf(models, stack.twice, plan);
  const Duration layers = std::max(twice - once, Duration{0});
  return {layers / stack.layers, std::max(once - layers, Duration{0})};
}

}  // namespace

StepTotals ShareOfAttention(const StepTotals& totals, std::int32_t groups,
                            std::int32_t micro_batches) {
  const std::int64_t m = micro_batches;
  const auto share = [&](std::int64_t count) { return CeilDiv(CeilDiv(count, groups), m); };
  StepTotals part = totals;
  part.decode_items = share(totals.decode_items);
  part.decode_context_tokens =
      Portion(totals.decode_context_tokens, part.decode_items, totals.decode_items);
  const std::int64_t chunks = CeilDiv(totals.prefill_items, groups);
  part.prefill_items = CeilDiv(chunks, m);
  part.prefill_tokens = CeilDiv(Portion(totals.prefill_tokens, chunks, totals.prefill_items), m);
  part.prefill_attention_pairs =
      CeilDiv(Portion(totals.prefill_attention_pairs, chunks, totals.prefill_items), m);
  part.prefill_context_tokens =
      Portion(totals.prefill_context_tokens, part.prefill_items, totals.prefill_items);
  part.padding_tokens = share(totals.padding_tokens);
  part.emitting_items = CeilDiv(totals.emitting_items, groups);
  part.draft_items = CeilDiv(totals.draft_items, groups);
  part.draft_tokens = CeilDiv(totals.draft_tokens, groups);
  return part;
}

FfnPoolCost::FfnPoolCost(const AttentionSide& attention, const FfnPoolConfig& ffn,
                         const CostMaker& make)
    : attention_groups_(ffn.attention_groups),
      pipe_{.micro_batches = ffn.micro_batches,
            .latency = LatencyOf(ffn.link, attention.hardware, ffn.hardware_spec),
            .placement = ffn.placement},
      hidden_(attention.model.hidden),
      swap_(attention.hardware, attention.kv_block_bytes) {
  const ModelSpec& model = attention.model;
  const CostConfig& ffn_cost = ffn.cost ? *ffn.cost : attention.cost;
  ValidateSplit(model, attention.parallelism, ffn);
  RequireKnowsParts(attention.cost, "cost");
  RequireKnowsParts(ffn_cost, "system.ffn.cost");
  const double devices = FfnDevicesOfLayer(model, ffn);
  link_ = {1 / (attention.parallelism.tensor * BytesPerSecond(ffn.link, attention.hardware)),
           1 / (devices * BytesPerSecond(ffn.link, ffn.hardware_spec))};
  for (const LayerGroup& group : OrderedLayers(model)) {
    Run run;
    run.layers = group.layers;
    run.visited = DevicesVisited(model, group.layer, ffn);
    run.attention =
        AddStack(make, attention.cost, attention.hardware, attention.parallelism, group.layers,
                 [&](std::int32_t layers) { return AttentionLayers(model, group.layer, layers); });
    for (const FfnPart& part : FfnParts(model, group.layer, ffn)) {
      Stack stack =
          AddStack(make, ffn_cost, ffn.hardware_spec, {.tensor = part.tensor}, group.layers,
                   [&](std::int32_t layers) { return FfnLayers(model, part, layers); });
      stack.rows_per_token = part.rows_per_token;
      run.ffn.push_back(stack);
    }
    runs_.push_back(std::move(run));
  }
}

FfnPoolCost::Stack FfnPoolCost::AddStack(const CostMaker& make, const CostConfig& config,
                                         const HardwareSpec& hardware,
                                         const Parallelism& parallelism, std::int32_t layers,
                                         const std::function<ModelSpec(std::int32_t)>& model) {
  // Swaps are this model's own: inner plans have none.
  constexpr std::int64_t kNoBlock = 1;
  const Stack stack{.layers = layers, .once = models_.size(), .twice = models_.size() + 1};
  models_.push_back(make(config, model(layers), hardware, parallelism, kNoBlock));
  models_.push_back(make(config, model(2 * layers), hardware, parallelism, kNoBlock));
  return stack;
}

FfnPoolPipe FfnPoolCost::PipeOf(const StepTotals& totals) const {
  FfnPoolPipe pipe = pipe_;
  pipe.micro_batches =
      static_cast<std::int32_t>(std::min<std::int64_t>(pipe.micro_batches, totals.tokens()));
  return pipe;
}

template <class Models>
FfnPoolLayer FfnPoolCost::LayerOf(const Run& run, const StepTotals& totals,
                                  std::int32_t micro_batches, const Models& models) const {
  const StepTotals share = ShareOfAttention(totals, attention_groups_, micro_batches);
  const std::int64_t tokens = CeilDiv(totals.tokens(), micro_batches);
  FfnPoolLayer layer;
  layer.attention = TimesOf(models, run.attention, share).layer;
  for (const Stack& stack : run.ffn) {
    const double rows = stack.rows_per_token * static_cast<double>(tokens);
    const auto whole = static_cast<std::int64_t>(std::ceil(rows));
    layer.ffn += TimesOf(models, stack, RowsOf(totals, whole)).layer;
  }
  const double seconds = run.visited * hidden_ *
                         std::max(link_.group_token_s * static_cast<double>(share.tokens()),
                                  link_.token_s * static_cast<double>(tokens));
  layer.send = CostDuration(kFfnName, kSentBytes * seconds);
  layer.back = CostDuration(kFfnName, kReturnedBytes * seconds);
  return layer;
}

template <class Models>
Duration FfnPoolCost::EndsOf(const StepTotals& totals, std::int32_t micro_batches,
                             const Models& models) const {
  return TimesOf(models, runs_.front().attention,
                 ShareOfAttention(totals, attention_groups_, micro_batches))
      .ends;
}

template <class Models>
Duration FfnPoolCost::TimeOfStep(const StepTotals& totals, const Models& models) const {
  const FfnPoolPipe pipe = PipeOf(totals);
  const Duration ends = EndsOf(totals, pipe.micro_batches, models);
  if (runs_.size() == 1) {
    const FfnPoolLayer layer = LayerOf(runs_.front(), totals, pipe.micro_batches, models);
    return ends + FfnPoolTimeOfEqual(layer, runs_.front().layers, pipe);
  }
  std::vector<FfnPoolLayer> layers;
  for (const Run& run : runs_) {
    layers.insert(layers.end(), static_cast<std::size_t>(run.layers),
                  LayerOf(run, totals, pipe.micro_batches, models));
  }
  return ends + FfnPoolTime(layers, pipe);
}

void FfnPoolCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  CHECK(stage_times.size() == 1);
  stage_times.front() = CostDuration(kFfnName, swap_.Seconds(plan) / attention_groups_);
  if (plan.totals.tokens() > 0) stage_times.front() += TimeOfStep(plan.totals, models_);
}

FfnPoolStep FfnPoolCost::StepOf(const StepTotals& totals) const {
  CHECK(totals.tokens() > 0);
  FfnPoolStep step{.layers = {}, .pipe = PipeOf(totals)};
  step.ends = EndsOf(totals, step.pipe.micro_batches, models_);
  for (const Run& run : runs_) {
    step.layers.insert(step.layers.end(), static_cast<std::size_t>(run.layers),
                       LayerOf(run, totals, step.pipe.micro_batches, models_));
  }
  return step;
}

bool FfnPoolCost::Covers(const StepTotals& totals) const {
  if (totals.tokens() == 0) return true;
  const std::int32_t m = PipeOf(totals).micro_batches;
  return models_.front()->Covers(ShareOfAttention(totals, attention_groups_, m));
}

class FfnPoolCost::ReplicaTimer final : public StepTimer {
 public:
  explicit ReplicaTimer(const FfnPoolCost& cost) : cost_(cost) {
    for (const auto& model : cost.models_) timers_.push_back(model->Timer());
  }

  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) override {
    CHECK(stage_times.size() == 1);
    stage_times.front() =
        CostDuration(kFfnName, cost_.swap_.Seconds(plan) / cost_.attention_groups_);
    if (plan.totals.tokens() > 0) stage_times.front() += cost_.TimeOfStep(plan.totals, timers_);
  }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int /*stage*/, TimePoint /*begin*/,
                                   const DeviceState& /*state*/) override {
    Duration time{0};
    DeviceTimes(plan, {&time, 1});
    return time;
  }

 private:
  const FfnPoolCost& cost_;
  std::vector<std::unique_ptr<StepTimer>> timers_;
};

std::unique_ptr<StepTimer> FfnPoolCost::Timer() const {
  return std::make_unique<ReplicaTimer>(*this);
}

}  // namespace twin::sim
