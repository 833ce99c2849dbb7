#include "sched/policy/policy_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "core/input_error.h"

namespace twin {
namespace {

[[noreturn]] void RefuseParameter(std::string_view name, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, fmt::format("policy.own.parameters.{}", name), what);
}

// The whole text as a number.
template <class Number>
Number Read(std::string_view name, const std::string& text, const char* allowed) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  bool is_valid = error == std::errc{} && rest == end;
  if constexpr (std::is_floating_point_v<Number>) is_valid = is_valid && std::isfinite(number);
  if (!is_valid) RefuseParameter(name, fmt::format("is {}; allowed: {}", text, allowed));
  return number;
}

}  // namespace

const std::string* PolicyParameters::Find(std::string_view name) const {
  if (std::ranges::find(known_, name) == known_.end()) known_.emplace_back(name);
  const auto found = std::ranges::find(given_, name, &PolicyParameter::name);
  return found == given_.end() ? nullptr : &found->value;
}

std::int32_t PolicyParameters::Integer(std::string_view name, std::int32_t otherwise) const {
  const std::string* const text = Find(name);
  return text == nullptr ? otherwise : Read<std::int32_t>(name, *text, "a whole number of 32 bits");
}

double PolicyParameters::Number(std::string_view name, double otherwise) const {
  const std::string* const text = Find(name);
  return text == nullptr ? otherwise : Read<double>(name, *text, "a number");
}

Duration PolicyParameters::Seconds(std::string_view name, Duration otherwise) const {
  const std::string* const text = Find(name);
  if (text == nullptr) return otherwise;
  constexpr double kSecondsMax = 1e9;
  const auto seconds = Read<double>(name, *text, "seconds");
  if (std::abs(seconds) > kSecondsMax) {
    RefuseParameter(name, fmt::format("is {}; allowed: up to 1e9 seconds", *text));
  }
  return DurationFromSeconds(seconds);
}

bool PolicyParameters::Flag(std::string_view name, bool otherwise) const {
  const std::string* const text = Find(name);
  if (text == nullptr) return otherwise;
  if (*text != "true" && *text != "false") {
    RefuseParameter(name, fmt::format("is {}; allowed: true, false", *text));
  }
  return *text == "true";
}

std::string PolicyParameters::Text(std::string_view name, std::string_view otherwise) const {
  const std::string* const text = Find(name);
  return text == nullptr ? std::string(otherwise) : *text;
}

void PolicyParameters::RequireAllKnown() const {
  for (const PolicyParameter& parameter : given_) {
    if (std::ranges::find(known_, parameter.name) != known_.end()) continue;
    RefuseParameter(parameter.name, known_.empty()
                                        ? std::string("the policy has no parameters")
                                        : fmt::format("is no parameter of the policy; allowed: {}",
                                                      fmt::join(known_, ", ")));
  }
}

}  // namespace twin
