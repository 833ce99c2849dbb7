// Methods of texts and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/python_text.h"

namespace twin::text::jinja {
namespace {

// An argument that must be a text, as Python's methods have it.
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

// Methods of text marked safe return text marked safe, which this subset does only where it says.
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

// The argument that a replacement field names: {} the next one, {0}, {name}.
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

const Builtin* Find(const std::vector<Builtin>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& method) { return method.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

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
