#include "sim/cost/draft_cost.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace twin::sim {
namespace {

// `Cost`: a cost model, or a timer of one.
template <class Cost>
Duration TimeOf(Cost& cost, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  cost.DeviceTimes(plan, {&time, 1});
  return time;
}

// One token of each request that emits.
StepTotals OneTokenEach(const StepPlan& plan) {
  StepTotals totals;
  for (const WorkItem& item : plan.work) {
    if (!item.emits) continue;
    const std::int64_t end = item.start + item.tokens;
    ++totals.decode_items;
    ++totals.emitting_items;
    totals.decode_context_tokens += end;
    totals.decode_context_max = std::max(totals.decode_context_max, end);
  }
  return totals;
}

}  // namespace

DraftCost::DraftCost(std::shared_ptr<const StepCost> target, ProposerCost proposer)
    : target_(std::move(target)), proposer_(std::move(proposer)) {
  CHECK(proposer_.model == nullptr || proposer_.model->stages() == 1);
}

std::shared_ptr<const StepCost> DraftCost::Seeded(std::uint64_t seed) const {
  ProposerCost proposer = proposer_;
  if (proposer.model != nullptr) proposer.model = CostOfSeed(proposer.model, seed);
  std::shared_ptr<const StepCost> target = CostOfSeed(target_, seed);
  if (target == target_ && proposer.model == proposer_.model) return nullptr;
  return std::make_shared<DraftCost>(std::move(target), std::move(proposer));
}

template <class First, class Other>
Duration DraftCost::ProposerTime(const StepPlan& plan, const First& first,
                                 const Other& other) const {
  const std::int32_t off = proposer_.off_from_running;
  if (plan.work.empty() || (off > 0 && plan.running >= off)) return Duration{0};
  Duration time = plan.totals.emitting_items > 0 ? proposer_.per_step : Duration{0};
  if (proposer_.model == nullptr) return time;
  time += first(plan.totals);
  if (plan.totals.emitting_items > 0 && proposer_.drafts > 1) {
    time += (proposer_.drafts - 1) * other(OneTokenEach(plan));
  }
  return time;
}

Duration DraftCost::ProposerTime(const StepPlan& plan) const {
  const auto pass = [this](const StepTotals& totals) { return TimeOf(*proposer_.model, totals); };
  return ProposerTime(plan, pass, pass);
}

void DraftCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  target_->DeviceTimes(plan, stage_times);
  stage_times.back() += ProposerTime(plan);
}

Duration DraftCost::StageTime(const StepPlan& plan, int stage, TimePoint begin,
                              const DeviceState& state) const {
  const Duration time = target_->StageTime(plan, stage, begin, state);
  return stage + 1 == stages() ? time + ProposerTime(plan) : time;
}

// The target's timer, and one for each kind of the draft model's passes.
class DraftCost::ReplicaTimer final : public StepTimer {
 public:
  explicit ReplicaTimer(const DraftCost& cost) : cost_(cost), target_(cost.target_->Timer()) {
    if (cost.proposer_.model == nullptr) return;
    first_ = cost.proposer_.model->Timer();
    other_ = cost.proposer_.model->Timer();
  }

  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) override {
    target_->DeviceTimes(plan, stage_times);
    stage_times.back() += ProposerTime(plan);
  }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) override {
    const Duration time = target_->StageTime(plan, stage, begin, state);
    return stage + 1 == cost_.stages() ? time + ProposerTime(plan) : time;
  }

 private:
  [[nodiscard]] Duration ProposerTime(const StepPlan& plan) {
    return cost_.ProposerTime(
        plan, [this](const StepTotals& totals) { return TimeOf(*first_, totals); },
        [this](const StepTotals& totals) { return TimeOf(*other_, totals); });
  }

  const DraftCost& cost_;
  std::unique_ptr<StepTimer> target_;
  std::unique_ptr<StepTimer> first_;
  std::unique_ptr<StepTimer> other_;
};

std::unique_ptr<StepTimer> DraftCost::Timer() const {
  return std::make_unique<ReplicaTimer>(*this);
}

std::optional<StepParts> DraftCost::Parts(const StepPlan& plan) const {
  std::optional<StepParts> parts = target_->Parts(plan);
  if (parts) (*parts)[StepPart::kOther] += ProposerTime(plan);
  return parts;
}

std::optional<StepParts> DraftCost::Parts(const StepPlan& plan, TimePoint begin,
                                          const DeviceState& state) const {
  std::optional<StepParts> parts = target_->Parts(plan, begin, state);
  if (parts) (*parts)[StepPart::kOther] += ProposerTime(plan);
  return parts;
}

}  // namespace twin::sim
