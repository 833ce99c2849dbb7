#include "apps/python/python_policy.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <exception>
#include <initializer_list>
#include <utility>

#include "apps/python/policy_step.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "sched/policy/vllm_v0.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

// str(object) in UTF-8, also if the object has no such text.
std::string TextOf(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  const nb::object bytes =
      text.is_valid()
          ? nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"))
          : nb::object();
  if (!bytes.is_valid()) {
    PyErr_Clear();
    return "(no text)";
  }
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

std::string TypeNameOf(nb::handle object) { return TextOf(object.type().attr("__name__")); }

[[noreturn]] void RaisePolicyError(const nb::object& error, const std::string& text) {
  PyErr_SetString(error.ptr(), text.c_str());
  throw nb::python_error();
}

// The attributes of a policy. Each raises PolicyError, with the attribute, if it has another type.
class Attributes {
 public:
  Attributes(const nb::object& policy, const nb::object& error) : policy_(policy), error_(error) {}

  [[nodiscard]] std::int32_t Limit(const char* name) const {
    const nb::object value = policy_.attr(name);
    std::int32_t limit = 0;
    if (!nb::try_cast(value, limit) || limit < 0) {
      Refuse(name, value, "an integer from 0; 0 = no limit");
    }
    return limit;
  }

  // The value that belongs to the attribute's word.
  template <class E>
  [[nodiscard]] E Word(const char* name,
                       std::initializer_list<std::pair<const char*, E>> words) const {
    const nb::object value = policy_.attr(name);
    std::string word;
    std::string allowed;
    const bool is_text = nb::try_cast(value, word);
    for (const auto& [known, meaning] : words) {
      if (is_text && word == known) return meaning;
      allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known);
    }
    Refuse(name, value, allowed.c_str());
  }

  // Refuses the value of the attribute unless `holds`.
  void Require(bool holds, const char* name, const char* allowed) const {
    if (!holds) Refuse(name, policy_.attr(name), allowed);
  }

  [[nodiscard]] bool Flag(const char* name) const {
    const nb::object value = policy_.attr(name);
    bool flag = false;
    if (!nb::try_cast(value, flag)) Refuse(name, value, "True or False");
    return flag;
  }

 private:
  [[noreturn]] void Refuse(const char* name, const nb::object& value, const char* allowed) const {
    RaisePolicyError(error_, fmt::format("policy {}: {} is {}; allowed: {}", TypeNameOf(policy_),
                                         name, TextOf(value), allowed));
  }

  const nb::object& policy_;
  const nb::object& error_;
};

// The line of a policy's code at which the exception arose: " (fair.py, line 12)"; empty if there
// is none.
std::string PlaceOf(const nb::python_error& raised) {
  std::string place;
  for (nb::object at = raised.traceback(); at.is_valid() && !at.is_none();
       at = at.attr("tb_next")) {
    const std::string file = TextOf(at.attr("tb_frame").attr("f_code").attr("co_filename"));
    // The base class, and the policy that names the place in a scheduler itself.
    if (file.ends_with("/twinserve/policy.py") ||
        file.ends_with("/twinserve/engines/vllm_policy.py")) {
      continue;
    }
    place = fmt::format(" ({}, line {})", file.substr(file.rfind('/') + 1),
                        TextOf(at.attr("tb_lineno")));
  }
  return place;
}

// Where the class defines plan(): "fair.py, line 12"; empty for code without a file.
std::string PlaceOfPlan(const nb::object& policy) {
  const nb::object code =
      nb::getattr(nb::getattr(policy, "plan", nb::none()), "__code__", nb::none());
  if (code.is_none()) return "";
  const std::string file = TextOf(code.attr("co_filename"));
  return fmt::format("{}, line {}", file.substr(file.rfind('/') + 1),
                     TextOf(code.attr("co_firstlineno")));
}

// A reference that any thread may drop.
std::shared_ptr<const nb::object> SharedObject(nb::object object) {
  return {new nb::object(std::move(object)), [](const nb::object* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

}  // namespace

const Sequence& PolicyRequest::sequence() const {
  if (has_left) {
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
    const std::string text =
        fmt::format("policy {}: {}() failed in step {}: {}: {}", scope_->traits.name, method,
                    step_number_, TextOf(raised.type().attr("__name__")), TextOf(raised.value()));
    const std::string line = Printable(text, kMessageBytesMax) + PlaceOf(raised);
    try {
      nb::raise_from(raised, error_, "%s", text.c_str());
    } catch (const nb::python_error& chained) {
      throw PythonPolicyFailure(line, nb::borrow(chained.value()));
    }
  } catch (const std::exception& failed) {
    throw PolicyFailure(fmt::format("policy {}: {}() failed in step {}: {}", scope_->traits.name,
                                    method, step_number_, failed.what()));
  }
}

PythonPolicyFailure::PythonPolicyFailure(const std::string& text, nb::object raised)
    : PolicyFailure(text), raised_(SharedObject(std::move(raised))) {}

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
    PolicyRequest& request = *nb::inst_ptr<PolicyRequest>(object);
    request.has_left = true;
    request.output_tokens = sequence.known - sequence.prompt_tokens;
    if (scope_->traits.caches_prefixes) request.keys_left = sequence.keys;
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
  struct ResetStep {
    PlanScope& scope;
    ~ResetStep() { scope.step = nullptr; }
  } const reset{*scope_};
  Guard("plan", [&] { plan_(step_); });
  for (const Rejection& rejection : step.plan().rejected) {
    if (requests_.contains(rejection.request)) requests_.Close(rejection.request);
  }
}

TimePoint PythonPolicy::WakeAt() const {
  return Guard("wake_at", [&] {
    const nb::object answer = policy_.attr("wake_at")();
    if (answer.is_none()) return kTimeNever;
    double seconds = 0;
    if (!nb::try_cast(answer, seconds)) {
      const std::string what =
          fmt::format("it returned {}; allowed: None, or seconds since the start", TextOf(answer));
      throw nb::type_error(what.c_str());
    }
    return kTimeZero + DurationFromSeconds(seconds);
  });
}

namespace {

// Splits the process while no other thread can be in the interpreter.
int ForkInterpreter() {
  const nb::gil_scoped_acquire lock;
  const nb::object out = nb::module_::import_("sys").attr("stdout");
  const bool writes = nb::hasattr(out, "flush") && nb::hasattr(out, "reconfigure");
  if (writes) out.attr("flush")();  // else the child writes it, too
  PyOS_BeforeFork();
  const int process = fork();
  if (process != 0) {
    PyOS_AfterFork_Parent();
    return process;
  }
  PyOS_AfterFork_Child();
  // The child ends without the interpreter's knowledge.
  if (writes) out.attr("reconfigure")(nb::arg("line_buffering") = true);
  return process;
}

// The traits with which a policy decides as a particular system does.
void SetSystemTraits(const Attributes& attributes, PolicyTraits& traits) {
  traits.steps_in_flight_max = attributes.Limit("steps_in_flight_max");
  attributes.Require(traits.steps_in_flight_max >= 1 && traits.steps_in_flight_max <= 1024,
                     "steps_in_flight_max", "1 to 1024");
  traits.result_queue =
      attributes.Word<ResultQueue>("result_queue", {{"synchronous", ResultQueue::kSynchronous},
                                                    {"pipeline", ResultQueue::kPipeline},
                                                    {"async", ResultQueue::kAsync},
                                                    {"batch_queue", ResultQueue::kBatchQueue},
                                                    {"overlap", ResultQueue::kOverlap}});
  const bool one = traits.steps_in_flight_max == 1;
  attributes.Require(one == (traits.result_queue == ResultQueue::kSynchronous), "result_queue",
                     "synchronous with one step in flight, another one with several");
  traits.overlaps_own_steps = attributes.Flag("overlaps_own_steps");
  attributes.Require(!traits.overlaps_own_steps || !one, "overlaps_own_steps",
                     "False with one step in flight");
  traits.frees_in_flight = attributes.Flag("frees_in_flight");
  traits.publishes_returned_tokens = attributes.Flag("publishes_returned_tokens");
  traits.outputs_end_at_context = attributes.Flag("outputs_end_at_context");
  traits.sized_for_tokens = attributes.Limit("sized_for_tokens");
  traits.release_order = attributes.Word<ReleaseOrder>(
      "release_order",
      {{"back", ReleaseOrder::kBack}, {"keyless_front", ReleaseOrder::kKeylessFront}});
}

// `policy` is a twinserve.Policy; `make`, if not None, makes further ones for the engines, which
// else share it. Throws as OwnPolicyOf().
std::shared_ptr<OwnPolicy> MakeOwnPolicy(nb::object policy, nb::object make, nb::object error) {
  auto result = std::make_shared<OwnPolicy>();
  result->name = TypeNameOf(policy);
  result->place = PlaceOfPlan(policy);
  const Attributes attributes(policy, error);
  PolicyTraits& traits = result->traits;
  traits.name = result->name;
  traits.tokens_per_step_max = attributes.Limit("tokens_per_step_max");
  traits.sequences_per_step_max = attributes.Limit("sequences_per_step_max");
  traits.context_tokens_max = attributes.Limit("context_tokens_max");
  traits.preempts = attributes.Flag("preempts");
  traits.first_come_first_served = attributes.Flag("first_come_first_served");
  traits.caches_prefixes = attributes.Flag("caches_prefixes");
  traits.swaps_to_host = attributes.Flag("swaps_to_host");
  traits.reads_predictions = attributes.Flag("reads_predictions");
  SetSystemTraits(attributes, traits);
  // The rule that has swap space.
  if (traits.swaps_to_host) traits.memory_rule = VllmV0Config{}.Traits().memory_rule;
  result->make = [shared = SharedObject(std::move(policy)),
                  shared_make = SharedObject(std::move(make)),
                  shared_error = SharedObject(std::move(error)),
                  traits](const KvPoolConfig& kv) -> std::unique_ptr<Policy> {
    const nb::gil_scoped_acquire lock;
    nb::object of_engine = shared_make->is_none() ? *shared : (*shared_make)();
    return std::make_unique<PythonPolicy>(std::move(of_engine), *shared_error, traits, kv);
  };
  return result;
}

std::shared_ptr<const OwnPolicy> LoadPythonPolicy(const PolicyFile& file, const nb::object& error) {
  const nb::gil_scoped_acquire lock;
  nb::list parameters;
  for (const PolicyParameter& parameter : file.parameters) {
    parameters.append(nb::make_tuple(parameter.name, parameter.value));
  }
  nb::object class_name = nb::none();
  if (file.class_name) class_name = nb::cast(*file.class_name);
  try {
    nb::object loaded;
    if (file.engine) {
      const nb::object load = nb::module_::import_("twinserve.engines").attr("load");
      loaded = load(*file.engine, file.path, class_name, parameters);
    } else {
      const nb::object load = nb::module_::import_("twinserve._policy_file").attr("load");
      loaded = load(file.path, class_name, parameters);
    }
    const nb::object make = loaded[1];
    const std::shared_ptr<OwnPolicy> own = MakeOwnPolicy(make(), make, error);
    own->fork = ForkInterpreter;
    return own;
  } catch (const nb::python_error& raised) {
    if (raised.matches(PyExc_KeyboardInterrupt)) throw;
    throw InputError(InputError::Kind::kUsage, "", TextOf(raised.value()));
  }
}

void PreparePythonPolicy(const PolicyFile& file) {
  const nb::gil_scoped_acquire lock;
  try {
    const nb::object prepare = nb::module_::import_("twinserve._policy_file").attr("prepare");
    prepare(file.engine ? nb::cast(*file.engine) : nb::object(nb::none()));
  } catch (const nb::python_error& raised) {
    throw InputError(InputError::Kind::kUsage, "", TextOf(raised.value()));
  }
}

}  // namespace

std::shared_ptr<const OwnPolicy> OwnPolicyOf(nb::object policy, nb::object error) {
  return MakeOwnPolicy(std::move(policy), nb::none(), std::move(error));
}

void SetPolicyLoader(const nb::object& policy_error) {
  // Kept to the end of the process.
  auto* const error = new nb::object(policy_error);
  SetPythonPolicies(
      {.load = [error](const PolicyFile& file) { return LoadPythonPolicy(file, *error); },
       .prepare = &PreparePythonPolicy,
       .fork = &ForkInterpreter});
  SetPythonSourceFinder([](const PolicyFile& file) {
    const nb::gil_scoped_acquire lock;
    const nb::object find = nb::module_::import_("twinserve._policy_sources").attr("sources_of");
    // Names of files may hold any bytes.
    const nb::object found =
        find(nb::bytes(file.path.data(), file.path.size()), file.class_name.value_or("").c_str(),
             file.engine.value_or("").c_str());
    std::vector<std::string> sources;
    for (const nb::handle source : found) {
      const auto bytes = nb::cast<nb::bytes>(source);
      sources.emplace_back(bytes.c_str(), bytes.size());
    }
    return sources;
  });
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        try {
          std::rethrow_exception(thrown);
        } catch (const PythonPolicyFailure& failure) {
          PyErr_SetObject(failure.raised().type().ptr(), failure.raised().ptr());
        } catch (const PolicyFailure& failure) {
          PyErr_SetString(static_cast<nb::object*>(payload)->ptr(), failure.what());
        }
      },
      error);
}

}  // namespace twin::python
