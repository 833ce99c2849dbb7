#include "run/judge/judged_traits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::run {
namespace {

enum class TraitRule {
  kName,    // for people
  kOwn,     // the policy's own; the engine checks what it promises
  kBudget,  // 1 up to the system's, if that has one
  kLimit,   // no more than the system's; 0: the policy promises none
  kSystem,  // of the system: unset, or as there
  kUnset,   // the judge cannot follow policies that set it
};
constexpr bool DependsOnSystem(TraitRule rule) {
  return rule == TraitRule::kBudget || rule == TraitRule::kLimit || rule == TraitRule::kSystem;
}
template <TraitRule kRule>
using Rule = std::integral_constant<TraitRule, kRule>;

// Calls visit(rule, name, member) for each field.
template <class Visit>
constexpr void VisitTraits(Visit visit) {
  using enum TraitRule;
  visit(Rule<kName>(), "name", &PolicyTraits::name);
  visit(Rule<kBudget>(), "tokens_per_step_max", &PolicyTraits::tokens_per_step_max);
  visit(Rule<kLimit>(), "sequences_per_step_max", &PolicyTraits::sequences_per_step_max);
  visit(Rule<kBudget>(), "steps_in_flight_max", &PolicyTraits::steps_in_flight_max);
  visit(Rule<kOwn>(), "result_queue", &PolicyTraits::result_queue);
  visit(Rule<kSystem>(), "overlaps_own_steps", &PolicyTraits::overlaps_own_steps);
  visit(Rule<kOwn>(), "preempts", &PolicyTraits::preempts);
  visit(Rule<kOwn>(), "first_come_first_served", &PolicyTraits::first_come_first_served);
  visit(Rule<kUnset>(), "defers_release", &PolicyTraits::defers_release);
  visit(Rule<kSystem>(), "frees_in_flight", &PolicyTraits::frees_in_flight);
  visit(Rule<kOwn>(), "caches_prefixes", &PolicyTraits::caches_prefixes);
  visit(Rule<kOwn>(), "publishes_at_end", &PolicyTraits::publishes_at_end);
  visit(Rule<kUnset>(), "keeps_prefix_tree", &PolicyTraits::keeps_prefix_tree);
  visit(Rule<kSystem>(), "forgets_stale_tokens", &PolicyTraits::forgets_stale_tokens);
  visit(Rule<kUnset>(), "compared_tokens", &PolicyTraits::compared_tokens);
  visit(Rule<kOwn>(), "publishes_returned_tokens", &PolicyTraits::publishes_returned_tokens);
  visit(Rule<kOwn>(), "swaps_to_host", &PolicyTraits::swaps_to_host);
  visit(Rule<kUnset>(), "reserves_context", &PolicyTraits::reserves_context);
  visit(Rule<kUnset>(), "receives_kv", &PolicyTraits::receives_kv);
  visit(Rule<kUnset>(), "needs_disaggregation", &PolicyTraits::needs_disaggregation);
  visit(Rule<kUnset>(), "mixes_phases", &PolicyTraits::mixes_phases);
  visit(Rule<kOwn>(), "reads_predictions", &PolicyTraits::reads_predictions);
  visit(Rule<kUnset>(), "drafts_max", &PolicyTraits::drafts_max);
  visit(Rule<kUnset>(), "assumes_drafts", &PolicyTraits::assumes_drafts);
  visit(Rule<kUnset>(), "drafts_off_from_running", &PolicyTraits::drafts_off_from_running);
  visit(Rule<kUnset>(), "keeps_kv_groups", &PolicyTraits::keeps_kv_groups);
  visit(Rule<kUnset>(), "retention_interval", &PolicyTraits::retention_interval);
  visit(Rule<kUnset>(), "delivery", &PolicyTraits::delivery);
  visit(Rule<kOwn>(), "release_order", &PolicyTraits::release_order);
  visit(Rule<kSystem>(), "memory_rule", &PolicyTraits::memory_rule);
  visit(Rule<kSystem>(), "sized_for_tokens", &PolicyTraits::sized_for_tokens);
  visit(Rule<kSystem>(), "context_tokens_max", &PolicyTraits::context_tokens_max);
  visit(Rule<kUnset>(), "window_pool_ratio", &PolicyTraits::window_pool_ratio);
  visit(Rule<kUnset>(), "window_parameter", &PolicyTraits::window_parameter);
  visit(Rule<kSystem>(), "outputs_end_at_context", &PolicyTraits::outputs_end_at_context);
  visit(Rule<kSystem>(), "step_engine", &PolicyTraits::step_engine);
}

constexpr int CountRules() {
  int count = 0;
  VisitTraits([&](auto /*rule*/, const char* /*name*/, auto /*member*/) { ++count; });
  return count;
}

// Compiles only if PolicyTraits has as many fields as rules.
[[maybe_unused]] void CountFields(const PolicyTraits& traits) {
  [[maybe_unused]] const auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15,
                                f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28,
                                f29, f30, f31, f32, f33, f34, f35, f36] = traits;
  static_assert(CountRules() == 36, "every field of PolicyTraits needs a rule in VisitTraits()");
}

// The last value of an enumeration that a policy in the judge may have.
constexpr ResultQueue Last(ResultQueue /*type*/) { return ResultQueue::kOverlap; }
constexpr ReleaseOrder Last(ReleaseOrder /*type*/) { return ReleaseOrder::kKeylessFront; }

template <class T>
constexpr bool kIsText = std::same_as<T, std::string_view>;

// Numbers cross as 32 bits, so that no byte of a message is read as a value that its type lacks.
template <class T>
T GetNumber(MessageReader& reader) {
  const auto number = reader.Get<std::int32_t>();
  bool valid = number >= 0;
  if constexpr (std::same_as<T, bool>) {
    valid = valid && number <= 1;
  } else if constexpr (std::is_enum_v<T>) {
    valid = valid && number <= static_cast<std::int32_t>(Last(T{}));
  } else {
    static_assert(std::same_as<T, std::int32_t>);
  }
  if (!valid) throw BadMessage();
  return static_cast<T>(number);
}

std::string TextOf(std::string_view text) { return Printable(text); }
std::string TextOf(bool flag) { return flag ? "true" : "false"; }
std::string TextOf(std::int32_t number) { return std::to_string(number); }

// Whether the engine and the world know such steps and returns of results.
bool StepsFit(const PolicyTraits& traits) {
  constexpr std::int32_t kStepsMax = 64;
  const bool one = traits.steps_in_flight_max == 1;
  return traits.steps_in_flight_max >= 1 && traits.steps_in_flight_max <= kStepsMax &&
         one == (traits.result_queue == ResultQueue::kSynchronous) &&
         !(one && traits.overlaps_own_steps);
}

// Says what is wrong with a trait where the system's own policy has `system`; empty: nothing.
template <TraitRule kRule, class T>
std::string Refusal(const char* name, const T& value, const T& system, const T& unset) {
  std::string allowed;
  if constexpr (kRule == TraitRule::kBudget || kRule == TraitRule::kLimit) {
    constexpr std::int32_t kLeast = kRule == TraitRule::kBudget ? 1 : 0;
    if (system == 0 || (value >= kLeast && value <= system)) return "";
    allowed = fmt::format("{} to {}", kLeast, system);
  } else {
    if (value == unset || value == system) return "";
    allowed = TextOf(unset);
    if (system != unset) allowed += " or " + TextOf(system);
  }
  return fmt::format("its trait {} is {}; allowed in this system: {}", name, TextOf(value),
                     allowed);
}

}  // namespace

void PutTraits(MessageWriter& writer, const PolicyTraits& traits) {
  std::vector<const char*> unfollowed;
  const PolicyTraits unset;
  VisitTraits([&]<TraitRule kRule>(Rule<kRule> /*rule*/, const char* name, auto member) {
    const auto& value = traits.*member;
    if constexpr (kRule == TraitRule::kUnset) {
      if (value != unset.*member) unfollowed.push_back(name);
    } else if constexpr (kIsText<std::remove_cvref_t<decltype(value)>>) {
      writer.PutText(value);
    } else {
      writer.Put(static_cast<std::int32_t>(value));
    }
  });
  if (unfollowed.empty()) return;
  throw InputError(InputError::Kind::kUsage, "",
                   fmt::format("the judge cannot follow policies that set {}; allowed: policies "
                               "without",
                               fmt::join(unfollowed, ", ")));
}

PolicyTraits GetTraits(MessageReader& reader, std::deque<std::string>& texts) {
  PolicyTraits traits;
  VisitTraits([&]<TraitRule kRule>(Rule<kRule> /*rule*/, const char* /*name*/, auto member) {
    auto& value = traits.*member;
    if constexpr (kRule == TraitRule::kUnset) {
      return;
    } else if constexpr (kIsText<std::remove_cvref_t<decltype(value)>>) {
      value = texts.emplace_back(Printable(reader.GetText()));
    } else {
      value = GetNumber<std::remove_cvref_t<decltype(value)>>(reader);
    }
  });
  reader.End();
  if (!StepsFit(traits)) throw BadMessage();
  return traits;
}

std::string RefuseTraits(const PolicyTraits& traits, const PolicyTraits& system) {
  std::string refusal;
  const PolicyTraits unset;
  VisitTraits([&]<TraitRule kRule>(Rule<kRule> /*rule*/, const char* name, auto member) {
    if constexpr (DependsOnSystem(kRule)) {
      if (!refusal.empty()) return;
      refusal = Refusal<kRule>(name, traits.*member, system.*member, unset.*member);
    }
  });
  return refusal;
}

}  // namespace twin::run
