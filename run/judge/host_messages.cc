#include "run/judge/host_messages.h"

#include <fmt/format.h>

#include <optional>
#include <span>

#include "core/input_error.h"

namespace twin::run {
namespace {

// The traits that a policy in the judge may choose; all others have their defaults.
template <class Visit, class Traits>
void VisitTraits(Traits& traits, Visit visit) {
  visit(traits.tokens_per_step_max);
  visit(traits.sequences_per_step_max);
  visit(traits.steps_in_flight_max);
  visit(traits.result_queue);
  visit(traits.overlaps_own_steps);
  visit(traits.preempts);
  visit(traits.first_come_first_served);
  visit(traits.frees_in_flight);
  visit(traits.caches_prefixes);
  visit(traits.publishes_at_end);
  visit(traits.forgets_stale_tokens);
  visit(traits.publishes_returned_tokens);
  visit(traits.outputs_end_at_context);
  visit(traits.swaps_to_host);
  visit(traits.reads_predictions);
  visit(traits.release_order);
  visit(traits.sized_for_tokens);
  visit(traits.context_tokens_max);
}

}  // namespace

void PutFile(MessageWriter& writer, const PolicyFile& file) {
  writer.PutText(file.path);
  writer.PutText(file.class_name.value_or(""));
  writer.PutText(file.engine.value_or(""));
  writer.Put(static_cast<std::uint32_t>(file.parameters.size()));
  for (const PolicyParameter& parameter : file.parameters) {
    writer.PutText(parameter.name);
    writer.PutText(parameter.value);
  }
}

PolicyFile GetFile(MessageReader& reader) {
  PolicyFile file;
  file.path = reader.GetText();
  const std::string class_name = reader.GetText();
  if (!class_name.empty()) file.class_name = class_name;
  const std::string engine = reader.GetText();
  if (!engine.empty()) file.engine = engine;
  const auto parameters = reader.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < parameters; ++i) {
    std::string name = reader.GetText();
    file.parameters.push_back({std::move(name), reader.GetText()});
  }
  return file;
}

void PutTraits(MessageWriter& writer, const PolicyTraits& traits) {
  PolicyTraits followed;
  followed.name = traits.name;
  followed.memory_rule = traits.memory_rule;
  followed.step_engine = traits.step_engine;
  MessageWriter values;
  VisitTraits(traits, [&](const auto& value) { values.Put(value); });
  MessageReader reader(values.bytes());
  VisitTraits(followed,
              [&](auto& value) { value = reader.Get<std::remove_cvref_t<decltype(value)>>(); });
  if (followed != traits) {
    throw InputError(InputError::Kind::kUsage, "",
                     "the policy drafts, pads batches, keeps a prefix tree, defers releases, knows "
                     "windows or takes keys and values of other replicas, which the judge cannot "
                     "follow; allowed: policies without");
  }
  writer.PutText(traits.name);
  writer.PutText(traits.memory_rule);
  writer.PutText(traits.step_engine);
  writer.Append(values);
}

PolicyTraits GetTraits(MessageReader& reader, TraitNames& names) {
  names = {
      .name = reader.GetText(), .memory_rule = reader.GetText(), .step_engine = reader.GetText()};
  PolicyTraits traits;
  traits.name = names.name;
  traits.memory_rule = names.memory_rule;
  traits.step_engine = names.step_engine;
  VisitTraits(traits,
              [&](auto& value) { value = reader.Get<std::remove_cvref_t<decltype(value)>>(); });
  reader.End();
  const bool valid = traits.tokens_per_step_max >= 0 && traits.sequences_per_step_max >= 0 &&
                     traits.steps_in_flight_max >= 1 && traits.steps_in_flight_max <= 64 &&
                     traits.result_queue <= ResultQueue::kOverlap &&
                     traits.release_order <= ReleaseOrder::kKeylessFront &&
                     traits.sized_for_tokens >= 0 && traits.context_tokens_max >= 0;
  if (!valid) throw BadMessage();
  return traits;
}

void PutCalls(MessageWriter& writer, const StepCalls& calls) {
  writer.PutList(std::span<const StepCall>(calls.calls));
  writer.PutList(std::span<const RequestId>(calls.decodes));
}

void GetCalls(MessageReader& reader, StepCalls& calls) {
  reader.GetList(calls.calls);
  reader.GetList(calls.decodes);
  for (const StepCall& call : calls.calls) {
    if (call.kind > StepCall::Kind::kPublishPrefix) throw BadMessage();
  }
}

}  // namespace twin::run
