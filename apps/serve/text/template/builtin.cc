#include "apps/serve/text/template/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/template/value_text.h"
#include "core/check.h"

namespace twin::text::jinja {
namespace {

const Builtin* Find(const std::vector<Builtin>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// Tests: value is name(arguments).

using IsKind = bool (*)(const Value&);

template <IsKind kTest>
Value TestKind(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return Value::Bool(kTest(value));
}

template <ValueKind kKind>
bool Is(const Value& value) {
  return value.is(kKind);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsTrue(const Value& value) { return value.is(ValueKind::kBool) && value.boolean(); }
bool IsFalse(const Value& value) { return value.is(ValueKind::kBool) && !value.boolean(); }
bool IsNumber(const Value& value) { return value.is_number(); }

// An undefined value can be visited, and has no elements.
bool IsIterable(const Value& value) {
  return value.is_text() || value.is(ValueKind::kSequence) || value.is(ValueKind::kDict) ||
         value.is_undefined();
}

// A value with a length and elements in brackets: texts and dicts too, and undefined values.
bool IsSequence(const Value& value) {
  if (value.is(ValueKind::kSequence)) return value.sequence().has_indices();
  return IsIterable(value);
}

Value TestEqual(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  return Value::Bool(Equal(value, *arguments.At(0)));
}
Value TestUnequal(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  return Value::Bool(!Equal(value, *arguments.At(0)));
}
Value TestIn(Machine& machine, const Value& value, const Arguments& arguments) {
  machine.budget.Spend(arguments.At(0)->Weight() / 32);
  return Value::Bool(Contains(*arguments.At(0), value));
}

// Functions.

// The limit of jinja2's sandbox.
constexpr std::int64_t kRangeMost = 100'000;

Value RaiseException(Machine& /*machine*/, const Value& /*subject*/, const Arguments& arguments) {
  throw Failure(ToText(*arguments.At(0)), true);
}

Value StrftimeNow(Machine& machine, const Value& /*subject*/, const Arguments& arguments) {
  const Value& format = *arguments.At(0);
  if (!format.is_text()) Fail("strftime_now needs a str");
  // Directives that the C locale prints the same everywhere.
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

// Entries from the arguments of namespace() and dict(): entries of dicts, then named arguments.
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

// Methods of texts and dicts.

// An argument that must be a text.
const std::string& TextArgument(const Arguments& arguments, std::size_t position) {
  const Value& value = *arguments.At(position);
  if (value.is_undefined()) Fail(value.why_undefined());
  if (!value.is_text()) Fail(fmt::format("a str is needed, not '{}'", value.TypeName()));
  return value.text();
}

bool IsGiven(const Arguments& arguments, std::size_t position) {
  const Value* const value = arguments.At(position);
  return value != nullptr && !value->is(ValueKind::kNone);
}

// The text of a method's object. Python's methods of text marked safe return text marked safe;
// here they refuse it.
const std::string& Plain(const Value& text) {
  if (text.is_markup()) Fail("this method does not take text marked safe");
  return text.text();
}

Value TextSplit(Machine& /*machine*/, const Value& text, const Arguments& arguments) {
  const std::optional<std::string_view> separator =
      IsGiven(arguments, 0) ? std::optional<std::string_view>(TextArgument(arguments, 0))
                            : std::nullopt;
  std::vector<Value> parts;
  for (std::string& part : Split(Plain(text), separator, arguments.Integer(1, -1))) {
    parts.push_back(Value::Text(std::move(part)));
  }
  return Value::List(std::move(parts));
}

template <Sides kSides>
Value TextStrip(Machine& /*machine*/, const Value& text, const Arguments& arguments) {
  const std::optional<std::string_view> drop =
      IsGiven(arguments, 0) ? std::optional<std::string_view>(TextArgument(arguments, 0))
                            : std::nullopt;
  return Value::Text(std::string(Strip(Plain(text), kSides, drop)));
}

// startswith and endswith take one text or a tuple of them.
template <bool kAtEnd>
Value TextHasAffix(Machine& /*machine*/, const Value& text, const Arguments& arguments) {
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) Fail(affix.why_undefined());
    if (!affix.is_text()) {
      Fail(fmt::format("a str or a tuple of str is needed, not '{}'", affix.TypeName()));
    }
    return kAtEnd ? text.text().ends_with(affix.text()) : text.text().starts_with(affix.text());
  };
  const Value& affix = *arguments.At(0);
  if (affix.is(ValueKind::kSequence) && affix.sequence().kind == SequenceKind::kTuple) {
    const auto& items = affix.sequence().items;
    return Value::Bool(std::any_of(items.begin(), items.end(), matches));
  }
  return Value::Bool(matches(affix));
}

Value TextReplace(Machine& /*machine*/, const Value& text, const Arguments& arguments) {
  return Value::Text(Replace(Plain(text), TextArgument(arguments, 0), TextArgument(arguments, 1),
                             arguments.Integer(2, -1)));
}

Value TextLower(Machine& /*machine*/, const Value& text, const Arguments& /*arguments*/) {
  return Value::Text(Lower(Plain(text)));
}

Value TextUpper(Machine& /*machine*/, const Value& text, const Arguments& /*arguments*/) {
  return Value::Text(Upper(Plain(text)));
}

// The argument that a replacement field names: {0} by position, {name}, or {} the next one.
const Value& FormatArgument(const Arguments& arguments, std::string_view field, std::size_t& next) {
  std::size_t position = next;
  if (field.empty()) {
    ++next;
  } else {
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), position);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == field.data() + field.size();
    for (const auto& [name, value] : arguments.named) {
      if (!is_number && name == field) return value;
    }
    if (!is_number) {
      Fail(fmt::format("format: field '{}' is neither a number nor a given name", field));
    }
  }
  const Value* const value = arguments.At(position);
  if (value == nullptr) Fail(fmt::format("format: there is no argument {}", position));
  return *value;
}

Value TextFormat(Machine& /*machine*/, const Value& text, const Arguments& arguments) {
  std::string_view rest = Plain(text);
  BoundedText result;
  std::size_t next = 0;
  while (!rest.empty()) {
    const std::size_t brace = rest.find_first_of("{}");
    result.Append(rest.substr(0, brace));
    if (brace == std::string_view::npos) break;
    rest.remove_prefix(brace);
    if (rest.size() > 1 && rest[1] == rest[0]) {
      result.Append(rest[0]);
      rest.remove_prefix(2);
      continue;
    }
    const std::size_t end = rest.find('}');
    if (rest[0] == '}' || end == std::string_view::npos) Fail("format: a brace has no partner");
    result.Append(ToText(FormatArgument(arguments, rest.substr(1, end - 1), next)));
    rest.remove_prefix(end + 1);
  }
  return Value::Text(result.Take());
}

template <typename Part>
Value View(const Value& dict, std::string_view name, Part part) {
  std::vector<Value> items;
  items.reserve(dict.dict().entries.size());
  for (const auto& entry : dict.dict().entries) items.push_back(part(entry));
  return Value::Sequence({.kind = SequenceKind::kView, .items = std::move(items), .view = name});
}

Value DictItems(Machine& /*machine*/, const Value& dict, const Arguments& /*arguments*/) {
  return View(dict, "dict_items", [](const auto& entry) {
    return Value::Tuple({entry.first, entry.second});
  });
}

Value DictKeys(Machine& /*machine*/, const Value& dict, const Arguments& /*arguments*/) {
  return View(dict, "dict_keys", [](const auto& entry) { return entry.first; });
}

Value DictValues(Machine& /*machine*/, const Value& dict, const Arguments& /*arguments*/) {
  return View(dict, "dict_values", [](const auto& entry) { return entry.second; });
}

Value DictGet(Machine& /*machine*/, const Value& dict, const Arguments& arguments) {
  if (const Value* const value = dict.dict().Find(*arguments.At(0))) return *value;
  const Value* const other = arguments.At(1);
  return other == nullptr ? Value::None() : *other;
}

}  // namespace

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

const Builtin* FindTest(std::string_view name) {
  static const auto* const kTests = new std::vector<Builtin>{
      {"defined", {}, 0, TestKind<IsDefined>},
      {"undefined", {}, 0, TestKind<Is<ValueKind::kUndefined>>},
      {"none", {}, 0, TestKind<Is<ValueKind::kNone>>},
      {"boolean", {}, 0, TestKind<Is<ValueKind::kBool>>},
      {"true", {}, 0, TestKind<IsTrue>},
      {"false", {}, 0, TestKind<IsFalse>},
      {"integer", {}, 0, TestKind<Is<ValueKind::kInteger>>},
      {"float", {}, 0, TestKind<Is<ValueKind::kFloat>>},
      {"number", {}, 0, TestKind<IsNumber>},
      {"string", {}, 0, TestKind<Is<ValueKind::kText>>},
      {"mapping", {}, 0, TestKind<Is<ValueKind::kDict>>},
      {"iterable", {}, 0, TestKind<IsIterable>},
      {"sequence", {}, 0, TestKind<IsSequence>},
      {"equalto", {"other"}, 1, TestEqual},
      {"eq", {"other"}, 1, TestEqual},
      {"==", {"other"}, 1, TestEqual},
      {"ne", {"other"}, 1, TestUnequal},
      {"!=", {"other"}, 1, TestUnequal},
      {"in", {"seq"}, 1, TestIn},
  };
  return Find(*kTests, name);
}

const Builtin* FindFunction(std::string_view name) {
  static const auto* const kFunctions = new std::vector<Builtin>{
      {"raise_exception", {"message"}, 1, RaiseException},
      {"strftime_now", {"format"}, 1, StrftimeNow},
      {"range", {"start", "stop", "step"}, 1, MakeRange},
      {"namespace", {}, 0, MakeNamespace, true},
      {"dict", {}, 0, MakeDict, true},
  };
  return Find(*kFunctions, name);
}

const Builtin* FindTextMethod(std::string_view name) {
  static const auto* const kMethods = new std::vector<Builtin>{
      {"split", {"sep", "maxsplit"}, 0, TextSplit},
      {"strip", {"chars"}, 0, TextStrip<Sides::kBoth>},
      {"lstrip", {"chars"}, 0, TextStrip<Sides::kLeft>},
      {"rstrip", {"chars"}, 0, TextStrip<Sides::kRight>},
      {"startswith", {"prefix"}, 1, TextHasAffix<false>},
      {"endswith", {"suffix"}, 1, TextHasAffix<true>},
      {"replace", {"old", "new", "count"}, 2, TextReplace},
      {"lower", {}, 0, TextLower},
      {"upper", {}, 0, TextUpper},
      {"format", {}, 0, TextFormat, true},
  };
  return Find(*kMethods, name);
}

const Builtin* FindDictMethod(std::string_view name) {
  static const auto* const kMethods = new std::vector<Builtin>{
      {"items", {}, 0, DictItems},
      {"keys", {}, 0, DictKeys},
      {"values", {}, 0, DictValues},
      {"get", {"key", "default"}, 1, DictGet},
  };
  return Find(*kMethods, name);
}

bool IsRefusedMethod(ValueKind kind, std::string_view name) {
  constexpr std::array<std::string_view, 11> kOfLists = {"append", "clear",   "copy",   "count",
                                                         "extend", "index",   "insert", "pop",
                                                         "remove", "reverse", "sort"};
  constexpr std::array<std::string_view, 7> kOfDicts = {"clear",   "copy",       "fromkeys", "pop",
                                                        "popitem", "setdefault", "update"};
  if (kind == ValueKind::kDict) {
    return std::find(kOfDicts.begin(), kOfDicts.end(), name) != kOfDicts.end();
  }
  return kind == ValueKind::kSequence &&
         std::find(kOfLists.begin(), kOfLists.end(), name) != kOfLists.end();
}

bool IsKnownMethod(std::string_view name) {
  return FindTextMethod(name) != nullptr || FindDictMethod(name) != nullptr || name == "append" ||
         name == "pop";
}

}  // namespace twin::text::jinja
