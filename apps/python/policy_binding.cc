#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "apps/python/policy_step.h"
#include "apps/python/python_policy.h"

namespace twin::python {
namespace {

namespace nb = nanobind;
using Request = PolicyRequest;

nb::list KeysFrom(const Request& request, std::size_t from_index) {
  const std::vector<BlockKey>& keys =
      request.has_left ? request.keys_left : request.sequence().keys;
  nb::list result;
  for (std::size_t i = from_index; i < keys.size(); ++i) {
    result.append(static_cast<std::uint64_t>(keys[i]));
  }
  return result;
}

nb::class_<Request> BindAsked(nb::module_& module) {
  nb::class_<Request> request(
      module, "Request",
      "A request as a policy sees it.\n\n"
      "What the client asked for can be read at any time. Its progress (known, "
      "computed, left, state, ...) can be read in Policy.plan() only. The length of "
      "its output is unknown until it has ended.\n\n"
      "The docstring of a field has a line on its counterpart in C++, and one on what a "
      "real server knows.");
  request
      .def_prop_ro(
          "id", [](const Request& r) { return Index(r.id); },
          "Number of the request, in order of arrival.\n"
          "C++: Sequence::id\nServer: yes")
      .def_ro("prompt_tokens", &Request::prompt_tokens,
              "Length of the prompt, tokens.\n"
              "C++: Sequence::prompt_tokens\nServer: yes, once it has tokenized the prompt")
      .def_ro("max_output_tokens", &Request::max_output_tokens,
              "Limit of the output that the client set, tokens.\n"
              "C++: Sequence::max_output_tokens\nServer: yes, where clients set max_tokens; else "
              "the limit of the model")
      .def_ro("priority", &Request::priority,
              "Smaller is more important.\n"
              "C++: Sequence::priority\nServer: yes, where clients send one")
      .def_ro(
          "tenant", &Request::tenant,
          "Tenant of the workload.\n"
          "C++: Sequence::tenant\nServer: where keys or accounts of clients reach its scheduler")
      .def_ro("predicted_output_tokens", &Request::predicted_output_tokens,
              "The workload's prediction of the output, tokens; -1 without one, or without "
              "reads_predictions.\n"
              "C++: Sequence::predicted_output_tokens\nServer: no: it needs a predictor of its own")
      .def_ro("arrival_s", &Request::arrival_s,
              "Time of arrival, seconds since the start.\n"
              "C++: Sequence::arrival\nServer: yes")
      .def_ro("output_tokens", &Request::output_tokens,
              "Tokens of its output, from Policy.remove() on; -1 before.\n"
              "C++: Sequence::known less prompt_tokens, in Policy::Remove()\nServer: yes");
  return request;
}

void BindProgress(nb::class_<Request>& request) {
  request
      .def_prop_ro(
          "known", [](const Request& r) { return r.sequence().known; },
          "Tokens of the prompt and of the output so far.\n"
          "C++: Sequence::known\nServer: yes")
      .def_prop_ro(
          "computed", [](const Request& r) { return r.sequence().computed; },
          "Tokens whose keys and values are in the cache after this step's work so far.\n"
          "C++: Sequence::computed\nServer: yes")
      .def_prop_ro(
          "pending", [](const Request& r) { return r.sequence().pending; },
          "Output tokens of steps that have not ended.\n"
          "C++: Sequence::pending\nServer: yes")
      .def_prop_ro(
          "left", [](const Request& r) { return r.sequence().left(); },
          "Tokens left to compute: the prompt of a new request, 1 for a decode.\n"
          "C++: Sequence::left()\nServer: yes")
      .def_prop_ro(
          "decodes", [](const Request& r) { return r.sequence().decodes; },
          "True once it has emitted a token since its latest admission.\n"
          "C++: Sequence::decodes\nServer: yes")
      .def_prop_ro(
          "state", [](const Request& r) { return StateName(r.sequence().state); },
          "waiting, running, swapped or finished.\n"
          "C++: Sequence::state\nServer: yes")
      .def_prop_ro(
          "preemptions", [](const Request& r) { return r.sequence().preemptions; },
          "How often it lost its memory while running.\n"
          "C++: Sequence::preemptions\nServer: yes")
      .def_prop_ro(
          "blocks", [](const Request& r) { return r.sequence().blocks.held(); },
          "KV blocks that it holds.\n"
          "C++: Sequence::blocks.held()\nServer: yes")
      .def("prefix_keys", &KeysFrom, nb::arg("from_index") = 0,
           "Keys of its full blocks from that index on: equal keys mean equal tokens up to the end "
           "of "
           "the block. Also after Policy.remove() of a policy that caches prefixes.\n"
           "C++: Sequence::keys\nServer: yes, as hashes of tokens")
      .def("__repr__", [](const Request& r) {
        return "<twinserve.Request " + std::to_string(Index(r.id)) + ": prompt of " +
               std::to_string(r.prompt_tokens) + " tokens>";
      });
}

void BindStepQueries(nb::class_<PolicyStep>& step) {
  step.def_prop_ro(
          "number",
          [](const PolicyStep& s) {
            return static_cast<std::uint64_t>(Index(s.builder().plan().id));
          },
          "Number of the step, from 1.\n"
          "C++: StepBuilder::plan().id\nServer: yes")
      .def_prop_ro(
          "now_s", [](const PolicyStep& s) { return Seconds(s.builder().now()); },
          "Time of planning, seconds since the start.\n"
          "C++: StepBuilder::now()\nServer: yes")
      .def_prop_ro("tokens_left", &PolicyStep::tokens_left,
                   "What tokens_per_step_max leaves to this step, tokens.\n"
                   "C++: counted by the policy itself\nServer: yes")
      .def_prop_ro("sequences_left", &PolicyStep::sequences_left,
                   "What sequences_per_step_max leaves to this step, requests.\n"
                   "C++: counted by the policy itself\nServer: yes")
      .def_prop_ro(
          "free_blocks", [](const PolicyStep& s) { return s.builder().pool().free(); },
          "KV blocks neither held nor reserved.\n"
          "C++: StepBuilder::pool().free()\nServer: yes")
      .def_prop_ro(
          "blocks", [](const PolicyStep& s) { return s.builder().pool().usable(); },
          "All KV blocks.\n"
          "C++: StepBuilder::pool().usable()\nServer: yes")
      .def_prop_ro(
          "block_size", [](const PolicyStep& s) { return s.builder().pool().block_size(); },
          "Tokens of a KV block.\n"
          "C++: StepBuilder::pool().block_size()\nServer: yes")
      .def_prop_ro(
          "free_host_blocks", [](const PolicyStep& s) { return s.builder().pool().host_free(); },
          "Free blocks of the swap space.\n"
          "C++: StepBuilder::pool().host_free()\nServer: yes, where it has swap space")
      .def(
          "blocks_for",
          [](const PolicyStep& s, std::int32_t tokens) {
            return s.builder().pool().BlocksFor(std::max(tokens, 0));
          },
          nb::arg("tokens"),
          "KV blocks that hold `tokens` tokens.\n"
          "C++: StepBuilder::pool().BlocksFor()\nServer: yes");
}

void BindStepCalls(nb::class_<PolicyStep>& step) {
  step.def("admit", &PolicyStep::Admit, nb::arg("request"),
           "Lets a waiting request run, without blocks: call grow() or reserve() next. Calls "
           "Policy.admitted().")
      .def(
          "grow", &PolicyStep::Grow, nb::arg("request"), nb::arg("tokens"),
          "Takes blocks until the request holds enough for `tokens` tokens in total. Returns False "
          "and changes nothing if too few blocks are free.")
      .def("reserve", &PolicyStep::Reserve, nb::arg("request"), nb::arg("blocks"),
           "Reserves further blocks for the request; False if too few are free.")
      .def("schedule", &PolicyStep::Schedule, nb::arg("request"), nb::arg("tokens"),
           nb::arg("padded_tokens") = 0,
           "Adds the next `tokens` tokens of a running request to the step; its blocks must cover "
           "them. `padded_tokens`: row length in a padded batch, 0 without padding.")
      .def("schedule_decodes", &PolicyStep::ScheduleDecodes, nb::arg("requests"),
           nb::arg("from_index") = 0,
           "Adds one token of each request of the list from `from_index` on, up to the first that "
           "is no plain decode, finds no block, or is beyond the limits of the step. Returns how "
           "many. Equal to grow() and schedule() for each, but much faster.")
      .def("unschedule", &PolicyStep::Unschedule, nb::arg("request"),
           "Takes a request out of this step.")
      .def("preempt", &PolicyStep::Preempt, nb::arg("request"),
           "Frees all blocks of a running request, whose tokens will be computed again. Calls "
           "Policy.preempted().")
      .def(
          "swap_out", &PolicyStep::SwapOut, nb::arg("request"),
          "Moves all blocks of a running request to the host. Returns False and changes nothing if "
          "too few host blocks are free. Calls Policy.swapped_out().")
      .def("swap_in", &PolicyStep::SwapIn, nb::arg("request"),
           "Moves them back, and the request runs again. Returns False and changes nothing if too "
           "few blocks are free. Calls Policy.swapped_in().")
      .def("reject", &PolicyStep::Reject, nb::arg("request"), nb::arg("reason"),
           "Rejects a waiting request for good; `reason` is too_large_for_cache, "
           "too_long_for_model or overloaded. Calls Policy.remove().")
      .def("lookup_prefix", &PolicyStep::LookupPrefix, nb::arg("request"),
           "Number of leading blocks of the request that the prefix cache holds.\n"
           "C++: StepBuilder::LookupPrefix()\nServer: yes, with prefix caching")
      .def("attach_prefix", &PolicyStep::AttachPrefix, nb::arg("request"), nb::arg("blocks"),
           "Attaches that many cached blocks to a request that was just admitted; 0 is recorded as "
           "a miss.")
      .def("publish_prefix", &PolicyStep::PublishPrefix, nb::arg("request"), nb::arg("tokens"),
           "Enters the full blocks of the first `tokens` tokens into the prefix cache.");
}

}  // namespace

void BindPolicy(nb::module_& module) {
  nb::class_<Request> request = BindAsked(module);
  BindProgress(request);
  nb::class_<PolicyStep> step(module, "Step",
                              "The step that Policy.plan() decides. Each call takes effect at once "
                              "and is checked against the engine's invariants.");
  BindStepQueries(step);
  BindStepCalls(step);
  module.def("engine_change", &EngineChange, nb::arg("asked"), nb::arg("beside_policy"),
             "The change that names the release of --engine, in the form of --set.");
  module.def("policy_change", &PolicyChange, nb::arg("asked"),
             "The change that names the policy of --policy, in the form of --set.");
}

}  // namespace twin::python
