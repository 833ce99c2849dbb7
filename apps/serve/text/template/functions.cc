// Functions that a template can call without an object.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/python_text.h"

namespace twin::text::jinja {
namespace {

// Jinja2's sandbox has the same limit.
constexpr std::int64_t kRangeMost = 100'000;

Value RaiseException(Machine& /*machine*/, const Value& /*subject*/, const Arguments& arguments) {
  throw Failure(ToText(*arguments.At(0)), true);
}

Value StrftimeNow(Machine& machine, const Value& /*subject*/, const Arguments& arguments) {
  const Value& format = *arguments.At(0);
  if (!format.is_text()) Fail("strftime_now needs a str");
  // What the C locale prints the same everywhere.
  constexpr std::string_view kDirectives = "aAbBcdHIjmMpSUwWxXyYDeFhRT%";
  const std::string& text = format.text();
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 2)) {
    if (at + 1 == text.size() || kDirectives.find(text[at + 1]) == std::string_view::npos) {
      Fail(fmt::format("strftime_now knows the directives {} only", kDirectives));
    }
  }
  const std::tm now = (*machine.clock)();
  std::array<char, 1024> buffer{};
  const std::size_t bytes = std::strftime(buffer.data(), buffer.size(), text.c_str(), &now);
  if (bytes == 0 && !text.empty()) Fail("strftime_now: the format is too long");
  return Value::Text(std::string(buffer.data(), bytes));
}

Value MakeRange(Machine& machine, const Value& /*subject*/, const Arguments& arguments) {
  const bool one = arguments.At(1) == nullptr;
  const std::int64_t first = one ? 0 : arguments.Integer(0, 0);
  const std::int64_t end = arguments.Integer(one ? 0 : 1, 0);
  const std::int64_t step = arguments.Integer(2, 1);
  if (step == 0) Fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t i = first; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(items.size()) == kRangeMost) {
      Fail(fmt::format("range() has more than {} elements", kRangeMost));
    }
    items.push_back(Value::Integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  machine.budget.Spend(items.size() / 8);
  return Value::Sequence({.kind = SequenceKind::kRange, .items = std::move(items)});
}

// The entries of what namespace() and dict() are called with: at most one dict, and named ones.
std::vector<std::pair<Value, Value>> EntriesOf(const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& argument : arguments.positional) {
    if (!argument->is(ValueKind::kDict)) {
      Fail(fmt::format("a dict is needed, not '{}'", argument->TypeName()));
    }
    const auto& given = argument->dict().entries;
    entries.insert(entries.end(), given.begin(), given.end());
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(Value::Text(name), value);
  return entries;
}

Value MakeNamespace(Machine& machine, const Value& /*subject*/, const Arguments& arguments) {
  Namespace* const space = machine.make_namespace();
  for (auto& [name, value] : EntriesOf(arguments)) {
    if (!name.is_text()) Fail("attributes of a namespace have texts as names");
    space->Set(name.text(), value);
  }
  return Value::Of(space);
}

Value MakeDict(Machine& /*machine*/, const Value& /*subject*/, const Arguments& arguments) {
  return Value::Dict(EntriesOf(arguments));
}

}  // namespace

const Builtin* FindFunction(std::string_view name) {
  static const auto* const kFunctions = new std::vector<Builtin>{
      {"raise_exception", {"message"}, 1, RaiseException},
      {"strftime_now", {"format"}, 1, StrftimeNow},
      {"range", {"start", "stop", "step"}, 1, MakeRange},
      {"namespace", {}, 0, MakeNamespace, true},
      {"dict", {}, 0, MakeDict, true},
  };
  const auto found = std::find_if(kFunctions->begin(), kFunctions->end(),
                                  [&](const Builtin& entry) { return entry.name == name; });
  return found == kFunctions->end() ? nullptr : &*found;
}

}  // namespace twin::text::jinja
