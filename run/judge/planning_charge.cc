#include "run/judge/planning_charge.h"

#include <optional>
#include <span>
#include <utility>

namespace twin::run {
namespace {

class ChargedCost final : public sim::StepCost {
 public:
  ChargedCost(std::shared_ptr<const sim::StepCost> inner, Duration planning)
      : inner_(std::move(inner)), planning_(planning) {}

  [[nodiscard]] int stages() const override { return inner_->stages(); }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override {
    return inner_->HostTime(plan) + planning_;
  }
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override {
    inner_->DeviceTimes(plan, stage_times);
  }
  [[nodiscard]] bool remembers() const override { return inner_->remembers(); }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const sim::DeviceState& state) const override {
    return inner_->StageTime(plan, stage, begin, state);
  }
  [[nodiscard]] std::unique_ptr<sim::StepTimer> Timer() const override { return inner_->Timer(); }
  void Advance(const StepPlan& plan, TimePoint begin, TimePoint end,
               sim::DeviceState& state) const override {
    inner_->Advance(plan, begin, end, state);
  }
  [[nodiscard]] Duration DeliveryTime(const StepPlan& plan) const override {
    return inner_->DeliveryTime(plan);
  }
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override {
    return Charged(inner_->Parts(plan));
  }
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan, TimePoint begin,
                                               const sim::DeviceState& state) const override {
    return Charged(inner_->Parts(plan, begin, state));
  }
  [[nodiscard]] bool Covers(const StepTotals& totals) const override {
    return inner_->Covers(totals);
  }
  [[nodiscard]] std::shared_ptr<const sim::StepCost> Seeded(std::uint64_t seed) const override {
    std::shared_ptr<const sim::StepCost> seeded = inner_->Seeded(seed);
    if (seeded == nullptr) return nullptr;
    return std::make_shared<ChargedCost>(std::move(seeded), planning_);
  }

 private:
  [[nodiscard]] std::optional<StepParts> Charged(std::optional<StepParts> parts) const {
    if (parts) (*parts)[StepPart::kSchedule] += planning_;
    return parts;
  }

  std::shared_ptr<const sim::StepCost> inner_;
  Duration planning_;
};

}  // namespace

std::shared_ptr<const sim::StepCost> WithPlanning(std::shared_ptr<const sim::StepCost> cost,
                                                  Duration planning) {
  return std::make_shared<ChargedCost>(std::move(cost), planning);
}

}  // namespace twin::run
