// Plans as text for people, and the first difference between two plans.
#pragma once

#include <optional>
#include <string>

#include "sched/step_plan.h"

namespace twin {

// One line in the notation of the golden examples, requests by number:
//
//   it3: r0:D1 r1:P7 r2:P3/10 | pre=[r4,r5s] | adm=[r1] | free=4
//
// P: prefill, D: decode; "/10": padded to 10 tokens; "v3": the last 3 are drafts; "s" after a
// preempted request: swapped. Further parts, where not empty: res (swapped in), rel (released), pad
// (padding rows), rej (rejected), hit=[r1:32] (tokens from the prefix cache).
std::string PlanText(const StepPlan& plan);

// The first difference between two plans.
struct PlanDifference {
  std::string field;  // "work[2]", "id", "kv.size"
  std::string left;
  std::string right;

  bool operator==(const PlanDifference&) const = default;
};

// Compares the decisions: exactly the fields that plan_encoding.h encodes.
std::optional<PlanDifference> FirstDifference(const StepPlan& left, const StepPlan& right);

}  // namespace twin
