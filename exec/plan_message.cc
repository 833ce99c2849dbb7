#include "exec/plan_message.h"

namespace twin::exec {
namespace {

// A member that is added to a plan changes one of these sums: it has to travel too.
constexpr std::size_t kLists = 9;
constexpr std::size_t kNumbers = 8;  // 7, and the space of one
static_assert(sizeof(StepPlan) == sizeof(StepId) + kLists * sizeof(std::vector<int>) +
                                      sizeof(StepTotals) + kNumbers * sizeof(std::int32_t));

// Calls list(l) for every list of a plan and value(v) for everything else.
template <class Plan, class ListAction, class ValueAction>
void ForEachMember(Plan& plan, const ListAction& list, const ValueAction& value) {
  value(plan.id);
  value(plan.replica);
  list(plan.kv);
  list(plan.work);
  list(plan.preempted);
  list(plan.admitted);
  list(plan.resumed);
  list(plan.released);
  list(plan.padding_rows);
  list(plan.rejected);
  list(plan.hits);
  value(plan.totals);
  value(plan.free_blocks_before);
  value(plan.free_blocks);
  value(plan.free_host_blocks);
  value(plan.waiting);
  value(plan.running);
  value(plan.swapped);
}

}  // namespace

void PutPlan(const StepPlan& plan, MessageWriter& message) {
  ForEachMember(
      plan, [&](const auto& list) { message.PutList(list); },
      [&](const auto& value) { message.Put(value); });
}

void TakePlan(MessageReader& message, StepPlan& plan) {
  ForEachMember(
      plan, [&](auto& list) { message.TakeList(list); },
      [&](auto& value) { value = message.Take<std::decay_t<decltype(value)>>(); });
}

}  // namespace twin::exec
