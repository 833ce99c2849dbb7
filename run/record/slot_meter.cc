#include "run/record/slot_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace twin {
namespace {

constexpr std::string_view kKey = "pipeline_slots_used_share";
constexpr double kShareTold = 0.5;

}  // namespace

SlotMeter::SlotMeter(const std::vector<std::int32_t>& stages) : replicas_(stages.size()) {
  for (std::size_t i = 0; i < stages.size(); ++i) replicas_[i].stages = stages[i];
}

void SlotMeter::OnStepEnded(const EndedStep& step) {
  Replica& replica = replicas_[static_cast<std::size_t>(step.plan.replica)];
  if (replica.stages == 1) return;
  CountUntil(replica, step.planned);
  replica.usable = std::min(step.plan.running, replica.stages);
  if (!step.plan.work.empty()) replica.ends.PushBack(step.finished);
}

// Steps end in the order in which they were planned.
void SlotMeter::CountUntil(Replica& replica, TimePoint time) {
  while (!replica.ends.empty() && replica.until < time) {
    const TimePoint next = std::min(replica.ends.front(), time);
    const auto in_flight = static_cast<std::int32_t>(replica.ends.size());
    if (next > replica.until) {
      replica.used_time += std::min(in_flight, replica.usable) * (next - replica.until);
      replica.usable_time += replica.usable * (next - replica.until);
      replica.until = next;
    }
    while (!replica.ends.empty() && replica.ends.front() <= next) replica.ends.PopFront();
  }
  replica.until = std::max(replica.until, time);
}

void SlotMeter::Summarise(const MetricWriter& out) {
  Duration used{0};
  Duration usable{0};
  for (Replica& replica : replicas_) {
    if (!replica.ends.empty()) CountUntil(replica, replica.ends.back());
    used += replica.used_time;
    usable += replica.usable_time;
  }
  out.Add(kKey, Ratio(Seconds(used), Seconds(usable)), "share",
          "steps in flight, as a share of those that the running requests could be in, one each; "
          "with several pipeline stages only",
          "time integral of min(steps with work in flight, m) / that of m, m = min(running, "
          "stages)");
}

std::string SlotsWarning(const Summary& summary) {
  if (summary.Find(kKey) == nullptr || !(summary.Number(kKey) < kShareTold)) return "";
  return fmt::format(
      "{} is {:.2g}: the policy puts running requests together into few steps, and most stages of "
      "the pipeline wait; policy ship gives each slot of the pipeline requests of its own",
      kKey, summary.Number(kKey));
}

}  // namespace twin
