#include "sim/cost/roofline_cost.h"

#include <string>
#include <string_view>

#include "core/check.h"
#include "core/input_error.h"
#include "sim/cost/transformer_graph.h"

namespace twin::sim {
namespace {

constexpr std::string_view kRooflineName = "cost.roofline";

// Checks before the members are built from them.
const ModelSpec& Checked(const RooflineCostConfig& config, const ModelSpec& model,
                         const HardwareSpec& hardware, const Parallelism& parallelism) {
  Validate(hardware);
  Validate(model, parallelism);
  if (!(config.host_s >= 0 && config.host_per_item_s >= 0 && config.host_per_token_s >= 0)) {
    throw InputError(InputError::Kind::kUsage, std::string(kRooflineName),
                     "has a negative host time; allowed: 0 or more");
  }
  return model;
}

}  // namespace

RooflineCost::RooflineCost(const RooflineCostConfig& config, const ModelSpec& model,
                           const HardwareSpec& hardware, const Parallelism& parallelism,
                           std::int64_t kv_block_bytes)
    : config_(config),
      features_(Checked(config, model, hardware, parallelism), config.gemm_tile_tokens),
      swap_(hardware, kv_block_bytes) {
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    paths_.emplace_back(BuildStageGraph(model, hardware, parallelism, stage, config));
  }
}

Duration RooflineCost::HostTime(const StepPlan& plan) const {
  const auto items = static_cast<double>(plan.work.size());
  const auto tokens = static_cast<double>(plan.totals.tokens());
  return CostDuration(kRooflineName, config_.host_s + config_.host_per_item_s * items +
                                         config_.host_per_token_s * tokens);
}

void RooflineCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  CHECK(stage_times.size() == paths_.size());
  const StepFeatures x = features_(plan.totals);
  const double swap = swap_.Seconds(plan);
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    stage_times[i] = CostDuration(kRooflineName, swap + paths_[i].Seconds(x));
  }
}

class RooflineCost::ReplicaTimer final : public StepTimer {
 public:
  explicit ReplicaTimer(const RooflineCost& cost) : cost_(cost) {
    for (const CriticalPath& path : cost.paths_) {
      stages_.push_back({&path, std::vector<double>(path.slots())});
    }
  }

  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) override {
    CHECK(stage_times.size() == stages_.size());
    cost_.features_.Renew(plan.totals, known_, [this](FeatureGroup group) {
      for (Stage& stage : stages_) stage.path->Compute(group, known_.x, stage.seconds);
    });
    const double swap = cost_.swap_.Seconds(plan);
    Duration* time = stage_times.data();
    for (const Stage& stage : stages_) {
      *time++ = CostDuration(kRooflineName, swap + stage.path->Seconds(stage.seconds));
    }
  }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) override {
    return cost_.StageTime(plan, stage, begin, state);
  }

 private:
  struct Stage {
    const CriticalPath* path;
    std::vector<double> seconds;  // of its operations in the latest step
  };

  const RooflineCost& cost_;
  KnownFeatures known_;  // of the latest step
  std::vector<Stage> stages_;
};

std::unique_ptr<StepTimer> RooflineCost::Timer() const {
  return std::make_unique<ReplicaTimer>(*this);
}

std::optional<StepParts> RooflineCost::Parts(const StepPlan& plan) const {
  const StepFeatures x = features_(plan.totals);
  const double swap = swap_.Seconds(plan);
  StepParts parts;
  Duration device{0};
  for (const CriticalPath& path : paths_) {
    device += CostDuration(kRooflineName, swap + path.Seconds(x));
    parts[StepPart::kBuild] += CostDuration(kRooflineName, swap);
    for (const OperationCost& cost : path.Breakdown(x)) {
      if (cost.on_critical_path) parts[cost.part] += CostDuration(kRooflineName, cost.seconds);
    }
  }
  // Each operation was rounded by itself.
  parts[StepPart::kOther] += device - parts.device();
  parts[StepPart::kSchedule] = HostTime(plan);
  return parts;
}

std::vector<OperationCost> RooflineCost::Breakdown(const StepTotals& totals, int stage) const {
  return paths_.at(static_cast<std::size_t>(stage)).Breakdown(features_(totals));
}

}  // namespace twin::sim
