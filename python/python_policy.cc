#include "python/python_policy.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "python/policy_step.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

std::int32_t Limit(const nb::object& policy, const char* name) {
  std::int32_t value = 0;
  if (!nb::try_cast(policy.attr(name), value) || value < 0) {
    throw nb::value_error(fmt::format("{}.{}: must be an integer from 0; 0 = no limit",
                                      nb::cast<std::string>(policy.type().attr("__name__")), name)
                              .c_str());
  }
  return value;
}

bool Flag(const nb::object& policy, const char* name) { return nb::cast<bool>(policy.attr(name)); }

// A reference that any thread may drop.
std::shared_ptr<const nb::object> Shared(nb::object object) {
  return {new nb::object(std::move(object)), [](const nb::object* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

}  // namespace

const Sequence& PolicyRequest::sequence() const {
  if (gone) {
    throw nb::value_error(fmt::format("request {} has left the engine", Index(id)).c_str());
  }
  if (scope->step == nullptr) {
    throw nb::value_error("the progress of a request can be read in plan() only");
  }
  return scope->step->sequence(id);
}

// Runs `call`, which calls `method`, with the interpreter lock.
template <class Call>
auto PythonPolicy::Guard(const char* method, Call call) const {
  const nb::gil_scoped_acquire lock;
  try {
    return call();
  } catch (nb::python_error& raised) {
    const auto type = nb::cast<std::string>(raised.type().attr("__name__"));
    const auto text = nb::cast<std::string>(nb::str(raised.value()));
    nb::raise_from(raised, error_, "policy %s: %s() failed in step %llu: %s: %s",
                   std::string(scope_->traits.name).c_str(), method,
                   static_cast<unsigned long long>(step_number_), type.c_str(), text.c_str());
  }
}

PythonPolicy::PythonPolicy(nb::object policy, nb::object error, PolicyTraits traits,
                           const KvPoolConfig& kv)
    : scope_(std::make_shared<PlanScope>(PlanScope{traits, policy, nullptr})),
      policy_(std::move(policy)),
      error_(std::move(error)) {
  Guard("begin", [&] { policy_.attr("begin")(kv.block_size, kv.blocks); });
  step_ = nb::cast(PolicyStep(scope_));
  plan_ = policy_.attr("plan");
  const nb::object base = nb::module_::import_("twinserve").attr("Policy");
  const char* const name = "step_returned";
  step_returned_ = policy_.type().attr(name).is(base.attr(name)) ? nb::none() : policy_.attr(name);
}

PythonPolicy::~PythonPolicy() {
  const nb::gil_scoped_acquire lock;
  requests_ = {};
  step_returned_.reset();
  plan_.reset();
  step_.reset();
  error_.reset();
  policy_.reset();
}

void PythonPolicy::Enqueue(const Sequence& sequence) {
  Guard("enqueue", [&] {
    PolicyRequest request;
    request.scope = scope_;
    request.id = sequence.id;
    request.prompt_tokens = sequence.prompt_tokens;
    request.max_output_tokens = sequence.max_output_tokens;
    request.priority = sequence.priority;
    request.tenant = sequence.tenant;
    request.predicted_output_tokens = sequence.predicted_output_tokens;
    request.arrival_s = Seconds(sequence.arrival);
    nb::object& object = requests_.Open(sequence.id);
    object = nb::cast(std::move(request));
    policy_.attr("enqueue")(object);
  });
}

void PythonPolicy::Remove(const Sequence& sequence) {
  Guard("remove", [&] {
    nb::object& object = requests_[sequence.id];
    nb::inst_ptr<PolicyRequest>(object)->gone = true;
    policy_.attr("remove")(object);
    object.reset();
    requests_.Close(sequence.id);
  });
}

void PythonPolicy::StepReturned(const StepPlan& plan) {
  if (step_returned_.is_none()) return;
  Guard("step_returned", [&] { step_returned_(Index(plan.id)); });
}

void PythonPolicy::Plan(StepBuilder& step) {
  step_number_ = Index(step.plan().id);
  scope_->step = &step;
  struct Closing {
    PlanScope& scope;
    ~Closing() { scope.step = nullptr; }
  } const closing{*scope_};
  Guard("plan", [&] { plan_(step_); });
  for (const Rejection& rejection : step.plan().rejected) {
    if (requests_.contains(rejection.request)) requests_.Close(rejection.request);
  }
}

bool PythonPolicy::Waits() const {
  return Guard("waits", [&] { return nb::cast<bool>(policy_.attr("waits")()); });
}

std::shared_ptr<const OwnPolicy> OwnPolicyOf(nb::object policy, nb::object error) {
  auto own = std::make_shared<OwnPolicy>();
  own->name = nb::cast<std::string>(policy.type().attr("__name__"));
  PolicyTraits& traits = own->traits;
  traits.name = own->name;
  traits.tokens_per_step_max = Limit(policy, "tokens_per_step_max");
  traits.sequences_per_step_max = Limit(policy, "sequences_per_step_max");
  traits.context_tokens_max = Limit(policy, "context_tokens_max");
  traits.preempts = Flag(policy, "preempts");
  traits.first_come_first_served = Flag(policy, "first_come_first_served");
  traits.caches_prefixes = Flag(policy, "caches_prefixes");
  traits.swaps_to_host = Flag(policy, "swaps_to_host");
  traits.reads_predictions = Flag(policy, "reads_predictions");
  if (traits.swaps_to_host) traits.memory_rule = "vllm_v0";  // the rule that has swap space
  own->make = [shared = Shared(std::move(policy)), shared_error = Shared(std::move(error)),
               traits](const KvPoolConfig& kv) -> std::unique_ptr<Policy> {
    const nb::gil_scoped_acquire lock;
    return std::make_unique<PythonPolicy>(*shared, *shared_error, traits, kv);
  };
  return own;
}

}  // namespace twin::python
