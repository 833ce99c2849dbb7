#include "sim/devices/profile_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

constexpr std::string_view kProfileName = "cost.profile";

// Checks before the members are built from it.
const ModelSpec& Checked(const ProfileCostConfig& config, const ModelSpec& model,
                         const HardwareSpec& hardware, const Parallelism& parallelism) {
  Validate(hardware);
  Validate(model, parallelism);
  Validate(config, model, parallelism);
  return model;
}

const DeviceProfile& DeviceOf(const ProfileCostConfig& config) {
  static const DeviceProfile nothing;
  return config.device == nullptr ? nothing : *config.device;
}

void LayOver(std::string_view field, const std::optional<double>& given, StepTerm& term) {
  if (!given) return;
  if (!(std::isfinite(*given) && *given >= 0)) {
    throw InputError(InputError::Kind::kUsage, fmt::format("{}.{}", kProfileName, field),
                     fmt::format("is {}; allowed: 0 or more", *given));
  }
  term.value = *given;
}

// Without a table nothing is extrapolated: a closed form holds for any size.
constexpr std::int64_t kNoTable = std::numeric_limits<std::int64_t>::max();

std::int64_t MeasuredRows(const GemmProfile& profile) {
  std::int64_t rows = 0;
  for (const GemmTable& table : profile.tables) rows = std::max<std::int64_t>(rows, table.m.back());
  return rows > 0 ? rows : kNoTable;
}

std::int64_t MeasuredLength(const AttentionProfile& profile, AttentionKind kind) {
  std::int64_t tokens = 0;
  for (const AttentionTable& table : profile.tables) {
    if (table.kind != kind) continue;
    tokens = std::max<std::int64_t>(tokens, profile.grids.at(table.grid).lengths.back());
  }
  return tokens > 0 ? tokens : kNoTable;
}

// A negative gap is time that operations overlap with the step before: all take less.
double ShownShare(const StageTimes& times) {
  if (times.gap >= 0) return 1;
  double operations = 0;
  for (const double seconds : times.operations) operations += seconds;
  return operations > 0 ? 1 + times.gap / operations : 1;
}

}  // namespace

StepTerms StepTermsOf(const ProfileCostConfig& config, const HardwareSpec& hardware) {
  const std::string_view name = config.profile.empty() ? hardware.name : config.profile;
  StepTerms terms = StepTermsFor(name, config.engine, DeviceOf(config).steps);
  LayOver("heat_factor", config.heat_factor, terms.heat_factor);
  LayOver("heat_tau_s", config.heat_tau_s, terms.heat_tau_s);
  LayOver("decode_heat_factor", config.decode_heat_factor, terms.decode_heat_factor);
  LayOver("compute_in_place", config.compute_in_place, terms.compute_in_place);
  LayOver("collective_in_place", config.collective_in_place, terms.collective_in_place);
  LayOver("graph_gap_s", config.graph_gap_s, terms.graph_gap_s);
  LayOver("eager_gap_s", config.eager_gap_s, terms.eager_gap_s);
  LayOver("hidden_gap_s", config.hidden_gap_s, terms.hidden_gap_s);
  LayOver("layer_launch_s", config.layer_launch_s, terms.layer_launch_s);
  LayOver("host_s", config.host_s, terms.host_s);
  LayOver("host_per_item_s", config.host_per_item_s, terms.host_per_item_s);
  if (terms.heat_tau_s.value <= 0) {
    throw InputError(InputError::Kind::kUsage, fmt::format("{}.heat_tau_s", kProfileName),
                     "is 0; allowed: above 0; heat_factor 0 switches the state off");
  }
  return terms;
}

void Validate(const ProfileCostConfig& config, const ModelSpec& model,
              const Parallelism& parallelism) {
  if (!config.expert_parallel) return;
  const std::int32_t experts = MostExperts(model);
  if (experts >= parallelism.tensor) return;
  throw InputError(
      InputError::Kind::kUsage, fmt::format("{}.expert_parallel", kProfileName),
      experts == 0
          ? fmt::format("{} has no experts; allowed: mixtures of experts", model.name)
          : fmt::format("{} has {} experts for {} ranks; allowed: at most a rank for each expert",
                        model.name, experts, parallelism.tensor));
}

StepModelConfig StepModelConfigOf(const ProfileCostConfig& config, const HardwareSpec& hardware) {
  StepModelConfig made;
  made.terms = StepTermsOf(config, hardware);
  made.draw_seed = config.draw_seed;
  made.mean_context = config.mean_context;
  made.recorded_ratios = config.recorded_ratios;
  made.recorded_engine = IsRecordedEngine(config.engine);
  made.operations.expert_parallel = config.expert_parallel;
  made.operations.library = config.library;
  made.operations.experts_kernel = config.experts_kernel;
  made.launches_kernels = LaunchesKernels(config.engine);
  // vLLM V0, SGLang, TensorRT-LLM and this program capture decodes alone, V0 in batches of up to
  // 256; TGIS captures nothing.
  made.captures_pieces = config.engine != StepEngine::kV0 &&
                         config.engine != StepEngine::kTwinserve && !made.launches_kernels;
  if (config.captures_graphs && config.engine != StepEngine::kTgis) {
    const std::uint32_t asked = config.captured_size_max;
    std::uint32_t largest = asked == 0 ? kCapturedSizeMax : asked;
    if (config.engine == StepEngine::kV0) largest = std::min(largest, kV0CapturedSizeMax);
    made.captured_sizes = CapturedSizes(largest);
  }
  return made;
}

ProfileCost::ProfileCost(const ProfileCostConfig& config, const ModelSpec& model,
                         const HardwareSpec& hardware, const Parallelism& parallelism,
                         std::int64_t kv_block_bytes, StageCache* stages)
    : model_(StepModelConfigOf(config, hardware), Checked(config, model, hardware, parallelism),
             hardware, parallelism, DeviceOf(config), stages),
      swap_(hardware, kv_block_bytes),
      rows_max_(MeasuredRows(DeviceOf(config).gemm)),
      prefill_context_max_(MeasuredLength(DeviceOf(config).attention, AttentionKind::kContext)),
      decode_context_max_(MeasuredLength(DeviceOf(config).attention, AttentionKind::kGeneration)) {}

Duration ProfileCost::HostTime(const StepPlan& plan) const {
  const StepTerms& terms = model_.terms();
  return CostDuration(kProfileName, terms.host_s.value + terms.host_per_item_s.value *
                                                             static_cast<double>(plan.work.size()));
}

StepParts ProfileCost::PartsOf(const StepPlan& plan, int stage, double heat,
                               double last_step) const {
  StepParts parts;
  parts[StepPart::kBuild] = CostDuration(kProfileName, swap_.Seconds(plan));
  if (plan.totals.tokens() == 0) return parts;
  const StageTimes times = model_.Times(plan.totals, stage, heat, last_step);
  const double shown = ShownShare(times);
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    parts[PartOf(static_cast<OperationClass>(i))] +=
        CostDuration(kProfileName, shown * times.operations[i]);
  }
  parts[StepPart::kOther] += CostDuration(kProfileName, std::max(times.gap, 0.0));
  parts[StepPart::kClocks] = CostDuration(kProfileName, times.clocks);
  return parts;
}

Duration ProfileCost::TimeOf(const StepPlan& plan, int stage, TimePoint begin,
                             const DeviceState& state, StepModel::Known& known) const {
  constexpr auto kDecodes = static_cast<std::size_t>(OperationClass::kDecodeAttention);
  const Duration swap = CostDuration(kProfileName, swap_.Seconds(plan));
  if (plan.totals.tokens() == 0) return swap;
  const StageTimes times = model_.Times(plan.totals, stage, model_.memory().Rested(state, begin),
                                        Seconds(state.last_step), known);
  const double shown = ShownShare(times);
  if (known.rounded_factor != shown) {
    known.rounded_factor = shown;
    known.rounded = Duration{0};
    for (std::size_t i = 0; i < kOperationClassCount; ++i) {
      if (i == kDecodes) continue;
      known.rounded += CostDuration(kProfileName, shown * times.operations[i]);
    }
  }
  return swap + known.rounded + CostDuration(kProfileName, shown * times.operations[kDecodes]) +
         CostDuration(kProfileName, std::max(times.gap, 0.0)) +
         CostDuration(kProfileName, times.clocks);
}

void ProfileCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  CHECK(stage_times.size() == static_cast<std::size_t>(stages()));
  for (int stage = 0; stage < stages(); ++stage) {
    stage_times[static_cast<std::size_t>(stage)] = StageTime(plan, stage, kTimeZero, DeviceState{});
  }
}

Duration ProfileCost::StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                const DeviceState& state) const {
  StepModel::Known known;
  return TimeOf(plan, stage, begin, state, known);
}

class ProfileCost::ReplicaTimer final : public StepTimer {
 public:
  explicit ReplicaTimer(const ProfileCost& cost)
      : cost_(cost), stages_(static_cast<std::size_t>(cost.stages())) {}

  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) override {
    CHECK(stage_times.size() == stages_.size());
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      stage_times[stage] = StageTime(plan, static_cast<int>(stage), kTimeZero, DeviceState{});
    }
  }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) override {
    return cost_.TimeOf(plan, stage, begin, state, stages_[static_cast<std::size_t>(stage)]);
  }

 private:
  const ProfileCost& cost_;
  std::vector<StepModel::Known> stages_;
};

std::unique_ptr<StepTimer> ProfileCost::Timer() const {
  return std::make_unique<ReplicaTimer>(*this);
}

void ProfileCost::Advance(const StepPlan& plan, TimePoint begin, TimePoint end,
                          DeviceState& state) const {
  const HeatMemory& memory = model_.memory();
  const double load = plan.totals.tokens() == 0 ? 0 : model_.ComputeShare(plan.totals);
  state.heat = memory.After(memory.Rested(state, begin), load, Seconds(end - begin));
  state.changed = end;
  state.last_step = end - begin;
}

std::optional<StepParts> ProfileCost::Parts(const StepPlan& plan) const {
  StepParts sum;
  for (int stage = 0; stage < stages(); ++stage) {
    const StepParts parts = PartsOf(plan, stage, 0, 0);
    for (std::size_t i = 0; i < kStepPartCount; ++i) sum.times[i] += parts.times[i];
  }
  sum[StepPart::kSchedule] = HostTime(plan);
  return sum;
}

std::optional<StepParts> ProfileCost::Parts(const StepPlan& plan, TimePoint begin,
                                            const DeviceState& state) const {
  CHECK(stages() == 1);
  StepParts parts =
      PartsOf(plan, 0, model_.memory().Rested(state, begin), Seconds(state.last_step));
  parts[StepPart::kSchedule] = HostTime(plan);
  return parts;
}

}  // namespace twin::sim
