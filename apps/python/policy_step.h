// The step that a policy in Python plans.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/python_policy.h"

namespace twin::python {

// The calls of StepBuilder for Python. What a policy in C++ must not do, and what would end the
// process, raises ValueError here; violated invariants raise InvariantViolation. A request that is
// admitted, preempted, swapped or rejected is also moved in the policy's own queues.
class PolicyStep {
 public:
  explicit PolicyStep(std::shared_ptr<PlanScope> scope) : scope_(std::move(scope)) {}

  // Throws nanobind::value_error unless a step is being planned, as all functions below do.
  [[nodiscard]] StepBuilder& builder() const;

  [[nodiscard]] std::int64_t tokens_left() const;
  [[nodiscard]] std::int64_t sequences_left() const;

  void Admit(nanobind::handle_t<PolicyRequest> request);
  [[nodiscard]] bool Grow(const PolicyRequest& request, std::int32_t tokens);
  [[nodiscard]] bool Reserve(const PolicyRequest& request, std::int32_t blocks);
  void Schedule(const PolicyRequest& request, std::int32_t tokens, std::int32_t padded_tokens);
  std::int64_t ScheduleDecodes(const nanobind::list& requests, std::int64_t from);
  void Unschedule(const PolicyRequest& request);
  void Preempt(nanobind::handle_t<PolicyRequest> request);
  [[nodiscard]] bool SwapOut(nanobind::handle_t<PolicyRequest> request);
  [[nodiscard]] bool SwapIn(nanobind::handle_t<PolicyRequest> request);
  void Reject(nanobind::handle_t<PolicyRequest> request, const std::string& reason);
  [[nodiscard]] std::int32_t LookupPrefix(const PolicyRequest& request) const;
  void AttachPrefix(const PolicyRequest& request, std::int32_t blocks);
  void PublishPrefix(const PolicyRequest& request, std::int32_t tokens);

 private:
  // Throws nanobind::value_error if the request belongs to another run or has left the engine.
  const Sequence& SequenceOf(const PolicyRequest& request) const;
  // Throws nanobind::value_error unless the request is in the state.
  const Sequence& Require(const PolicyRequest& request, SequenceState state,
                          const char* what) const;
  void Notify(const char* method, nanobind::handle request) const;

  std::shared_ptr<PlanScope> scope_;
  std::vector<RequestId> ids_;  // scratch of ScheduleDecodes
};

// "waiting", "running", "swapped" or "finished".
const char* StateName(SequenceState state);

}  // namespace twin::python
