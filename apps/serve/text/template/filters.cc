// Filters on one value, and on its elements.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/template/value_text.h"

namespace twin::text::jinja {
namespace {

// Filters on elements.

std::vector<Value> ElementsOf(Machine& machine, const Value& value) {
  std::vector<Value> elements = Elements(value);
  machine.budget.Spend(elements.size());
  return elements;
}

// The lazy filters of jinja2 take anything false for an empty list.
std::vector<Value> ElementsIfTrue(Machine& machine, const Value& value) {
  return value.Truth() ? ElementsOf(machine, value) : std::vector<Value>();
}

Value Generator(std::vector<Value> items) {
  return Value::Sequence({.kind = SequenceKind::kGenerator, .items = std::move(items)});
}

// A part of a path is an index where it is a number.
Value PathKey(std::string_view part) {
  std::int64_t index = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool is_index = !part.empty() && part.front() != '-' && parsed.ec == std::errc() &&
                        parsed.ptr == part.data() + part.size();
  return is_index ? Value::Integer(index) : Value::Text(std::string(part));
}

// The item at a path such as "function.name"; `absent`, if given, in place of an undefined one.
Value AtPath(const Value& item, const Value& path, const Value* absent = nullptr) {
  if (!path.is_text()) return GetItem(item, path);
  Value found = item;
  for (const std::string& part : Split(path.text(), ".", -1)) {
    found = GetItem(found, PathKey(part));
    if (absent != nullptr && !absent->is(ValueKind::kNone) && found.is_undefined()) {
      found = *absent;
    }
  }
  return found;
}

// The value that filters compare: an item's attribute if one is named, else the item. Texts are
// compared without regard to case unless asked.
struct SortKey {
  const Value* attribute = nullptr;
  bool case_sensitive = false;

  Value Of(const Value& item) const {
    const bool has_path = attribute != nullptr && !attribute->is(ValueKind::kNone);
    Value key = has_path ? AtPath(item, *attribute) : item;
    if (!case_sensitive && key.is_text()) key = Value::Text(Lower(key.text()));
    return key;
  }
};

std::vector<std::pair<Value, Value>> WithKeys(const std::vector<Value>& items, const SortKey& by) {
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) keyed.emplace_back(by.Of(item), item);
  return keyed;
}

// A merge sort of `count` elements compares each of them at most 20 times.
void SpendSort(Machine& machine, std::size_t count) { machine.budget.Spend(count * 20); }

std::vector<Value> Sorted(Machine& machine, const std::vector<Value>& items, const SortKey& by,
                          bool reverse) {
  SpendSort(machine, items.size());
  auto keyed = WithKeys(items, by);
  // Equal elements keep their order in both directions, as in Python.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    const int order = Compare(left.first, right.first);
    return reverse ? order > 0 : order < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return sorted;
}

Value FilterJoin(Machine& machine, const Value& value, const Arguments& arguments) {
  const Value* const separator = arguments.At(0);
  const Value* const attribute = arguments.At(1);
  const std::string between = separator == nullptr ? "" : ToText(*separator);
  BoundedText joined;
  bool first = true;
  for (const Value& item : ElementsOf(machine, value)) {
    if (!first) joined.Append(between);
    first = false;
    joined.Append(ToText(attribute == nullptr ? item : AtPath(item, *attribute)));
  }
  return Value::Text(joined.Take());
}

Value FilterItems(Machine& machine, const Value& value, const Arguments& /*arguments*/) {
  std::vector<Value> items;
  if (!value.is_undefined()) {
    if (!value.is(ValueKind::kDict)) Fail("Can only get item pairs from a mapping.");
    machine.budget.Spend(value.dict().entries.size());
    for (const auto& [key, content] : value.dict().entries) {
      items.push_back(Value::Tuple({key, content}));
    }
  }
  return Generator(std::move(items));
}

Value FilterDictSort(Machine& machine, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) Fail(value.why_undefined());
  if (!value.is(ValueKind::kDict)) {
    Fail(fmt::format("dictsort needs a dict, not {}", value.TypeName()));
  }
  const Value* const by = arguments.At(1);
  const bool by_value = by != nullptr && by->is_text() && by->text() == "value";
  if (by != nullptr && !by_value && !(by->is_text() && by->text() == "key")) {
    Fail("You can only sort by either \"key\" or \"value\"");
  }
  const Value position = Value::Integer(by_value ? 1 : 0);
  std::vector<Value> items;
  for (const auto& [key, content] : value.dict().entries) {
    items.push_back(Value::Tuple({key, content}));
  }
  const SortKey order{.attribute = &position, .case_sensitive = arguments.Flag(0, false)};
  return Value::List(Sorted(machine, items, order, arguments.Flag(2, false)));
}

Value FilterSort(Machine& machine, const Value& value, const Arguments& arguments) {
  const SortKey by{.attribute = arguments.At(2), .case_sensitive = arguments.Flag(1, false)};
  return Value::List(Sorted(machine, ElementsOf(machine, value), by, arguments.Flag(0, false)));
}

Value FilterUnique(Machine& machine, const Value& value, const Arguments& arguments) {
  const SortKey by{.attribute = arguments.At(1), .case_sensitive = arguments.Flag(0, false)};
  std::vector<std::pair<Value, Value>> seen;
  std::vector<Value> unique;
  for (auto& [key, item] : WithKeys(ElementsOf(machine, value), by)) {
    machine.budget.Spend(seen.size());
    const bool known = std::any_of(seen.begin(), seen.end(), [&key = key](const auto& other) {
      return Equal(other.first, key);
    });
    if (known) continue;
    seen.emplace_back(key, Value());
    unique.push_back(item);
  }
  return Generator(std::move(unique));
}

// The least or the greatest element; the first of equal ones.
Value Extreme(Machine& machine, const Value& value, const Arguments& arguments, bool greatest) {
  const SortKey by{.attribute = arguments.At(1), .case_sensitive = arguments.Flag(0, false)};
  const auto keyed = WithKeys(ElementsOf(machine, value), by);
  if (keyed.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  const auto* best = &keyed.front();
  for (const auto& candidate : keyed) {
    const int order = Compare(candidate.first, best->first);
    if (greatest ? order > 0 : order < 0) best = &candidate;
  }
  return best->second;
}

Value FilterMin(Machine& machine, const Value& value, const Arguments& arguments) {
  return Extreme(machine, value, arguments, false);
}

Value FilterMax(Machine& machine, const Value& value, const Arguments& arguments) {
  return Extreme(machine, value, arguments, true);
}

Value FilterList(Machine& machine, const Value& value, const Arguments& /*arguments*/) {
  return Value::List(ElementsOf(machine, value));
}

Value FilterFirst(Machine& machine, const Value& value, const Arguments& /*arguments*/) {
  const std::vector<Value> items = ElementsOf(machine, value);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.") : items.front();
}

Value FilterLast(Machine& machine, const Value& value, const Arguments& /*arguments*/) {
  const bool can_reverse =
      value.is_text() || value.is_undefined() || value.is(ValueKind::kDict) ||
      (value.is(ValueKind::kSequence) && value.sequence().kind != SequenceKind::kGenerator);
  if (!can_reverse) Fail(fmt::format("'{}' object is not reversible", value.TypeName()));
  const std::vector<Value> items = ElementsOf(machine, value);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value FilterReverse(Machine& machine, const Value& value, const Arguments& /*arguments*/) {
  std::vector<Value> items = ElementsOf(machine, value);
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) return Generator(std::move(items));
  BoundedText text;
  for (const Value& character : items) text.Append(character.text());
  return Value::Text(text.Take());
}

// map(attribute=..., default=...) or map('filter', its arguments...).
Value FilterMap(Machine& machine, const Value& value, const Arguments& arguments) {
  const Value* attribute = nullptr;
  const Value* absent = nullptr;
  for (const auto& [name, content] : arguments.named) {
    if (name == "attribute") attribute = &content;
    if (name == "default") absent = &content;
  }
  std::vector<Value> mapped;
  if (attribute != nullptr) {
    for (const Value& item : ElementsIfTrue(machine, value)) {
      mapped.push_back(AtPath(item, *attribute, absent));
    }
    return Generator(std::move(mapped));
  }
  const Builtin* const filter = FindFilter(arguments.positional.at(0)->text());
  Arguments rest{.positional = {arguments.positional.begin() + 1, arguments.positional.end()}};
  Bind(*filter, rest);
  for (const Value& item : ElementsIfTrue(machine, value)) {
    mapped.push_back(Apply(machine, *filter, item, rest));
  }
  return Generator(std::move(mapped));
}

// The elements that pass a test if `wanted`, else the elements that fail it. With `by_attribute`
// an attribute of each element is tested.
Value Select(Machine& machine, const Value& value, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  const std::size_t offset = by_attribute ? 1 : 0;
  const Value* const name = arguments.At(offset);
  const Builtin* const test = name == nullptr ? nullptr : FindTest(name->text());
  Arguments rest;
  if (test != nullptr) {
    const auto after_name = static_cast<std::ptrdiff_t>(offset + 1);
    rest.positional.assign(arguments.positional.begin() + after_name, arguments.positional.end());
    Bind(*test, rest);
  }
  std::vector<Value> selected;
  for (const Value& item : ElementsIfTrue(machine, value)) {
    const Value tested = by_attribute ? AtPath(item, *arguments.At(0)) : item;
    const bool passes =
        test == nullptr ? tested.Truth() : Apply(machine, *test, tested, rest).Truth();
    if (passes == wanted) selected.push_back(item);
  }
  return Generator(std::move(selected));
}

Value FilterSelect(Machine& machine, const Value& value, const Arguments& arguments) {
  return Select(machine, value, arguments, false, true);
}
Value FilterReject(Machine& machine, const Value& value, const Arguments& arguments) {
  return Select(machine, value, arguments, false, false);
}
Value FilterSelectAttr(Machine& machine, const Value& value, const Arguments& arguments) {
  return Select(machine, value, arguments, true, true);
}
Value FilterRejectAttr(Machine& machine, const Value& value, const Arguments& arguments) {
  return Select(machine, value, arguments, true, false);
}

// Filters on one value.

// str() of a value. Filters that cannot keep the mark of text marked safe refuse such text.
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

// The number that Python's int() or float() reads. White space around it is allowed.
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
  static const auto* const kFilters = new std::vector<Builtin>{
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
      {"join", {"d", "attribute"}, 0, FilterJoin},
      {"items", {}, 0, FilterItems},
      {"dictsort", {"case_sensitive", "by", "reverse"}, 0, FilterDictSort},
      {"sort", {"reverse", "case_sensitive", "attribute"}, 0, FilterSort},
      {"unique", {"case_sensitive", "attribute"}, 0, FilterUnique},
      {"min", {"case_sensitive", "attribute"}, 0, FilterMin},
      {"max", {"case_sensitive", "attribute"}, 0, FilterMax},
      {"list", {}, 0, FilterList},
      {"first", {}, 0, FilterFirst},
      {"last", {}, 0, FilterLast},
      {"reverse", {}, 0, FilterReverse},
      {"map", {}, 0, FilterMap, true},
      {"select", {}, 0, FilterSelect, true},
      {"reject", {}, 0, FilterReject, true},
      {"selectattr", {}, 0, FilterSelectAttr, true},
      {"rejectattr", {}, 0, FilterRejectAttr, true},
  };
  return *kFilters;
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  const auto found = std::find_if(Filters().begin(), Filters().end(),
                                  [&](const Builtin& filter) { return filter.name == name; });
  return found == Filters().end() ? nullptr : &*found;
}

}  // namespace twin::text::jinja
