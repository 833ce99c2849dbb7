// Filters on one value; those on lists are in list_filters.cc.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/json_text.h"
#include "apps/serve/text/template/list_filters.h"
#include "apps/serve/text/template/python_text.h"

namespace twin::text::jinja {
namespace {

// Of text marked safe, filters keep the mark only where they say so.
std::string PlainText(const Value& value) {
  if (value.is_markup()) Fail("this filter does not take text marked safe");
  return ToText(value);
}

Value FilterToJson(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  JsonStyle style{.ascii_only = arguments.Flag(0, false), .sorted_keys = arguments.Flag(3, false)};
  if (const Value* const indent = arguments.At(1); indent != nullptr && indent->is_text()) {
    style.indent = indent->text();
  } else if (indent != nullptr && !indent->is(ValueKind::kNone)) {
    const std::int64_t width = arguments.Integer(1, 0);
    BoundedText spaces;
    spaces.Repeat(" ", static_cast<std::uint64_t>(std::max<std::int64_t>(width, 0)));
    style.indent = spaces.Take();
  }
  const Value* const separators = arguments.At(2);
  if (separators != nullptr && !separators->is(ValueKind::kNone)) {
    const std::vector<Value> parts = Elements(*separators);
    if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text()) {
      Fail("separators must be two texts");
    }
    style.item_separator = parts[0].text();
    style.key_separator = parts[1].text();
  }
  return Value::Text(ToJson(value, style));
}

Value FilterFromJson(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  if (!value.is_text()) Fail(fmt::format("from_json needs a str, not {}", value.TypeName()));
  return ParseJson(value.text());
}

Value FilterLength(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return Value::Integer(Length(value));
}

Value FilterTrim(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  const Value* const characters = arguments.At(0);
  const bool has_characters = characters != nullptr && !characters->is(ValueKind::kNone);
  const std::string text = ToText(value);
  const std::optional<std::string> drop =
      has_characters ? std::optional(ToText(*characters)) : std::nullopt;
  return Value::Text(std::string(Strip(text, Sides::kBoth, drop)), value.is_markup());
}

Value FilterString(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return value.is_text() ? value : Value::Text(ToText(value));
}

Value FilterSafe(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return Value::Text(ToText(value), true);
}

Value FilterLower(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return Value::Text(Lower(PlainText(value)));
}

Value FilterUpper(Machine& /*machine*/, const Value& value, const Arguments& /*arguments*/) {
  return Value::Text(Upper(PlainText(value)));
}

Value FilterReplace(Machine& machine, const Value& value, const Arguments& arguments) {
  const Value* const count = arguments.At(2);
  const bool all = count == nullptr || count->is(ValueKind::kNone);
  const std::string text = Replace(PlainText(value), PlainText(*arguments.At(0)),
                                   PlainText(*arguments.At(1)), all ? -1 : arguments.Integer(2, 0));
  machine.budget.SpendBytes(text.size());
  return Value::Text(text);
}

Value FilterDefault(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  const bool replaces = value.is_undefined() || (arguments.Flag(1, false) && !value.Truth());
  if (!replaces) return value;
  const Value* const other = arguments.At(0);
  return other == nullptr ? Value::Text("") : *other;
}

Value FilterIndent(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  if (!value.is_text()) Fail(fmt::format("indent needs a str, not {}", value.TypeName()));
  BoundedText indent;
  if (const Value* const width = arguments.At(0); width != nullptr && width->is_text()) {
    indent.Append(width->text());
  } else {
    indent.Repeat(" ",
                  static_cast<std::uint64_t>(std::max<std::int64_t>(arguments.Integer(0, 4), 0)));
  }
  const std::string spaces = indent.Take();
  const bool indents_blank = arguments.Flag(2, false);
  BoundedText result;
  if (arguments.Flag(1, false)) result.Append(spaces);
  // The line end makes an empty text one line.
  const std::vector<std::string> lines = SplitLines(PlainText(value) + "\n");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.Append('\n');
    if (i > 0 && (indents_blank || !lines[i].empty())) result.Append(spaces);
    result.Append(lines[i]);
  }
  return Value::Text(result.Take());
}

// The number that Python's int() or float() reads, white space around it allowed.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  text = Strip(text, Sides::kBoth);
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  T value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool complete = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return complete ? std::optional(value) : std::nullopt;
}

Value FilterInt(Machine& /*machine*/, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) Fail(value.why_undefined());
  if (value.is_integer()) return Value::Integer(value.integer());
  std::optional<double> number;
  if (value.is(ValueKind::kFloat)) number = value.number();
  if (value.is_text()) {
    if (const auto whole = ParseNumber<std::int64_t>(value.text())) return Value::Integer(*whole);
    number = ParseNumber<double>(value.text());
  }
  if (number && std::isfinite(*number)) {
    if (std::abs(*number) >= 0x1p63) Fail("int: the number is beyond 64 bits");
    return Value::Integer(static_cast<std::int64_t>(*number));
  }
  const Value* const other = arguments.At(0);
  return other == nullptr ? Value::Integer(0) : *other;
}

const std::vector<Builtin>& Filters() {
  static const auto* const kFilters = [] {
    auto* const filters = new std::vector<Builtin>{
        {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, FilterToJson},
        {"from_json", {}, 0, FilterFromJson},
        {"length", {}, 0, FilterLength},
        {"count", {}, 0, FilterLength},
        {"trim", {"chars"}, 0, FilterTrim},
        {"string", {}, 0, FilterString},
        {"safe", {}, 0, FilterSafe},
        {"lower", {}, 0, FilterLower},
        {"upper", {}, 0, FilterUpper},
        {"replace", {"old", "new", "count"}, 2, FilterReplace},
        {"default", {"default_value", "boolean"}, 0, FilterDefault},
        {"d", {"default_value", "boolean"}, 0, FilterDefault},
        {"indent", {"width", "first", "blank"}, 0, FilterIndent},
        {"int", {"default"}, 0, FilterInt},
    };
    const std::vector<Builtin>& lists = ListFilters();
    std::copy(lists.begin(), lists.end(), std::back_inserter(*filters));
    return filters;
  }();
  return *kFilters;
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  const auto found = std::find_if(Filters().begin(), Filters().end(),
                                  [&](const Builtin& filter) { return filter.name == name; });
  return found == Filters().end() ? nullptr : &*found;
}

}  // namespace twin::text::jinja
