#include "apps/serve/text/template/builtin.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/template/callable.h"
#include "core/check.h"

namespace twin::text::jinja {

const Value* Arguments::At(std::size_t position) const {
  const bool given = position < positional.size() && positional[position].has_value();
  return given ? &*positional[position] : nullptr;
}

bool Arguments::Flag(std::size_t position, bool absent) const {
  const Value* const value = At(position);
  return value == nullptr ? absent : value->Truth();
}

std::int64_t Arguments::Integer(std::size_t position, std::int64_t absent) const {
  const Value* const value = At(position);
  if (value == nullptr) return absent;
  if (value->is_undefined()) Fail(value->why_undefined());
  if (!value->is_integer()) {
    Fail(fmt::format("'{}' object cannot be interpreted as an integer", value->TypeName()));
  }
  return value->integer();
}

std::string CheckArguments(const Builtin& builtin, std::size_t positional,
                           const std::vector<std::string_view>& named) {
  if (builtin.variadic) return "";
  const auto& parameters = builtin.parameters;
  if (positional > parameters.size()) {
    return fmt::format("'{}' takes at most {} arguments, not {}", builtin.name, parameters.size(),
                       positional);
  }
  std::vector<bool> given(parameters.size());
  std::fill_n(given.begin(), positional, true);
  for (const std::string_view name : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return fmt::format("'{}' has no argument '{}'", builtin.name, name);
    }
    const auto position = static_cast<std::size_t>(found - parameters.begin());
    if (given[position]) return fmt::format("'{}' is given twice to '{}'", name, builtin.name);
    given[position] = true;
  }
  for (std::size_t i = 0; i < builtin.required; ++i) {
    if (!given[i]) return fmt::format("'{}' needs its argument '{}'", builtin.name, parameters[i]);
  }
  return "";
}

void Bind(const Builtin& builtin, Arguments& arguments) {
  if (builtin.variadic) return;
  arguments.positional.resize(builtin.parameters.size());
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(builtin.parameters.begin(), builtin.parameters.end(), name);
    CHECK(found != builtin.parameters.end());
    arguments.positional[static_cast<std::size_t>(found - builtin.parameters.begin())] =
        std::move(value);
  }
  arguments.named.clear();
}

Value Apply(Machine& machine, const Builtin& builtin, const Value& subject,
            const Arguments& arguments) {
  std::uint64_t bytes = subject.Weight();
  for (const auto& argument : arguments.positional) bytes += argument ? argument->Weight() : 0;
  machine.budget.SpendBytes(bytes);
  Value result = builtin.apply(machine, subject, arguments);
  machine.budget.SpendBytes(result.Weight());
  return result;
}

Value BoundBuiltin::Call(Machine& machine, Arguments arguments) const {
  std::vector<std::string_view> names;
  for (const auto& [name, unused] : arguments.named) names.emplace_back(name);
  const std::string problem = CheckArguments(*builtin, arguments.positional.size(), names);
  if (!problem.empty()) Fail(problem);
  Bind(*builtin, arguments);
  return Apply(machine, *builtin, subject, arguments);
}

}  // namespace twin::text::jinja
