// Scheduling policies written in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/policy_file.h"
#include "core/id_window.h"
#include "sched/policy/own_policy.h"
#include "sched/step_builder.h"

namespace twin::python {

// State that requests and steps share with their policy: the step that is being planned, if any.
// Borrows the policy: a step that Python keeps must not keep the policy in a cycle.
struct PlanScope {
  PolicyTraits traits;
  nanobind::handle policy;
  StepBuilder* step = nullptr;
};

// A request as a policy in Python sees it. Its progress can be read while a step is planned.
struct PolicyRequest {
  std::shared_ptr<const PlanScope> scope;
  bool has_left = false;  // the engine
  RequestId id{};
  std::int32_t prompt_tokens = 0;
  std::int32_t max_output_tokens = 0;
  std::int32_t priority = 0;
  std::uint32_t tenant = 0;
  std::int32_t predicted_output_tokens = -1;
  double arrival_s = 0;
  std::int32_t output_tokens = -1;  // once it has left
  std::vector<BlockKey> keys_left;  // once it has left, of a policy that caches prefixes

  // Throws nanobind::value_error if no step is being planned or the request is gone.
  [[nodiscard]] const Sequence& sequence() const;
};

// An exception in a policy. Python gets the twinserve.PolicyError that it holds, whose cause is the
// exception; the text says the same in one line.
class PythonPolicyFailure final : public PolicyFailure {
 public:
  // REQUIRES: the interpreter lock.
  PythonPolicyFailure(const std::string& text, nanobind::object raised);
  [[nodiscard]] const nanobind::object& raised() const { return *raised_; }

 private:
  std::shared_ptr<const nanobind::object> raised_;
};

// A Python object as a policy of the engine. Every call holds the interpreter lock. An exception in
// Python becomes a PythonPolicyFailure; a result of another type becomes one that names the method.
class PythonPolicy final : public Policy {
 public:
  // `policy` is a twinserve.Policy that no other run uses. `error` is twinserve.PolicyError.
  PythonPolicy(nanobind::object policy, nanobind::object error, PolicyTraits traits,
               const KvPoolConfig& kv);
  ~PythonPolicy() override;
  PythonPolicy(const PythonPolicy&) = delete;
  PythonPolicy& operator=(const PythonPolicy&) = delete;

  [[nodiscard]] const PolicyTraits& traits() const override { return scope_->traits; }
  void Enqueue(const Sequence& sequence) override;
  void Remove(const Sequence& sequence) override;
  void StepReturned(const StepPlan& plan) override;
  void Plan(StepBuilder& step) override;
  [[nodiscard]] TimePoint WakeAt() const override;

 private:
  template <class Call>
  auto Guard(const char* method, Call call) const;

  std::shared_ptr<PlanScope> scope_;
  nanobind::object policy_;
  nanobind::object error_;
  nanobind::object step_;
  nanobind::object plan_;           // policy.plan, bound
  nanobind::object step_returned_;  // policy.step_returned, bound; None if it is the default
  IdWindow<nanobind::object> requests_;
  std::uint64_t step_number_ = 0;  // of the step that was planned last
};

// The policy for an experiment. `policy` is a twinserve.Policy. REQUIRES: the interpreter lock.
// Throws nanobind::python_error, a PolicyError that names the attribute, if one has another type.
std::shared_ptr<const OwnPolicy> OwnPolicyOf(nanobind::object policy, nanobind::object error);

// Lets experiments name policies in files of Python, and failures of policies reach Python.
// `policy_error` is twinserve.PolicyError. Called once.
void SetPolicyLoader(const nanobind::object& policy_error);

// Adds Request, Step and policy_change to the module.
void BindPolicy(nanobind::module_& module);

}  // namespace twin::python
