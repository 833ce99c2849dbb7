#include "apps/serve/text/template/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/utf8.h"

namespace twin::text::jinja {
namespace {

constexpr std::uint64_t kWeightMost = std::uint64_t{1} << 62;
constexpr std::uint64_t kElementWeight = 32;

// Counts a container's elements into its depth and weight.
struct Measure {
  int depth = 1;
  std::uint64_t weight = kElementWeight;

  void Add(const Value& element) {
    depth = std::max(depth, element.Depth() + 1);
    weight = std::min(kWeightMost, weight + element.Weight() + kElementWeight);
  }
  void Check(std::size_t elements) const {
    if (depth > kValueDepthMost) {
      Fail(fmt::format("lists and objects nest deeper than {} levels", kValueDepthMost));
    }
    if (elements > kElementsMost) {
      Fail(fmt::format("a list or object has more than {} elements", kElementsMost));
    }
  }
};

bool EqualItems(const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), Equal);
}

bool EqualDicts(const DictValue& left, const DictValue& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* const other = right.Find(entry.first);
    return other != nullptr && Equal(entry.second, *other);
  });
}

template <typename T>
int Order(const T& left, const T& right) {
  return left < right ? -1 : (right < left ? 1 : 0);
}

// True for sequences of one kind, which are compared by their elements.
bool AreAlike(const Value& left, const Value& right) {
  return left.is(ValueKind::kSequence) && right.is(ValueKind::kSequence) &&
         left.sequence().kind == right.sequence().kind &&
         left.sequence().kind != SequenceKind::kGenerator;
}

}  // namespace

Value Value::Undefined(std::string why) {
  return Value(Content(UndefinedText(std::make_shared<const std::string>(std::move(why)))));
}
Value Value::None() { return Value(Content(NoneType{})); }
Value Value::Bool(bool value) { return Value(Content(value)); }
Value Value::Integer(std::int64_t value) { return Value(Content(value)); }
Value Value::Float(double value) { return Value(Content(value)); }

Value Value::Text(std::string text, bool markup) {
  return Value(Content(std::make_shared<const TextValue>(TextValue{std::move(text), markup})));
}

Value Value::List(std::vector<Value> items) {
  return Sequence({.kind = SequenceKind::kList, .items = std::move(items)});
}

Value Value::Tuple(std::vector<Value> items) {
  return Sequence({.kind = SequenceKind::kTuple, .items = std::move(items)});
}

Value Value::Sequence(SequenceValue sequence) {
  Measure measure;
  for (const Value& item : sequence.items) measure.Add(item);
  measure.Check(sequence.items.size());
  sequence.depth = measure.depth;
  sequence.weight = measure.weight;
  return Value(Content(std::make_shared<const SequenceValue>(std::move(sequence))));
}

Value Value::Dict(std::vector<std::pair<Value, Value>> entries) {
  DictValue dict;
  for (auto& [key, value] : entries) {
    const bool hashable = key.is_text() || key.is_number() || key.is(ValueKind::kNone);
    if (!hashable) Fail(fmt::format("a {} cannot be a key", key.TypeName()));
    if (const Value* const present = dict.Find(key)) {
      const_cast<Value&>(*present) = std::move(value);
      continue;
    }
    if (key.is_text()) dict.by_text.emplace(key.text(), dict.entries.size());
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  Measure measure;
  for (const auto& [key, value] : dict.entries) {
    measure.Add(key);
    measure.Add(value);
  }
  measure.Check(dict.entries.size());
  dict.depth = measure.depth;
  dict.weight = measure.weight;
  return Value(Content(std::make_shared<const DictValue>(std::move(dict))));
}

Value Value::Of(Namespace* space) { return Value(Content(space)); }
Value Value::Of(std::shared_ptr<const Callable> callable) {
  return Value(Content(std::move(callable)));
}

const std::string& Value::text() const {
  return std::get<std::shared_ptr<const TextValue>>(content_)->text;
}
bool Value::is_markup() const {
  return is_text() && std::get<std::shared_ptr<const TextValue>>(content_)->markup;
}
std::int64_t Value::integer() const {
  return is(ValueKind::kBool) ? std::int64_t{boolean()} : std::get<std::int64_t>(content_);
}
double Value::number() const {
  return is(ValueKind::kFloat) ? std::get<double>(content_) : static_cast<double>(integer());
}
const SequenceValue& Value::sequence() const {
  return *std::get<std::shared_ptr<const SequenceValue>>(content_);
}
const DictValue& Value::dict() const {
  return *std::get<std::shared_ptr<const DictValue>>(content_);
}
const std::shared_ptr<const Callable>& Value::callable() const {
  return std::get<std::shared_ptr<const Callable>>(content_);
}
std::string Value::why_undefined() const {
  const auto& why = std::get<UndefinedText>(content_);
  return why ? *why : "a value is undefined";
}

bool Value::Truth() const {
  switch (kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
      return boolean();
    case ValueKind::kInteger:
    case ValueKind::kFloat:
      return number() != 0;
    case ValueKind::kText:
      return !text().empty();
    case ValueKind::kSequence:
      return sequence().kind == SequenceKind::kGenerator || !sequence().items.empty();
    case ValueKind::kDict:
      return !dict().entries.empty();
    case ValueKind::kNamespace:
    case ValueKind::kCallable:
      break;
  }
  return true;
}

std::string_view Value::TypeName() const {
  switch (kind()) {
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInteger:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kText:
      return "str";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kNamespace:
      return "Namespace";
    case ValueKind::kCallable:
      return "function";
    case ValueKind::kSequence:
      break;
  }
  switch (sequence().kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kView:
      return sequence().view;
    case SequenceKind::kGenerator:
      break;
  }
  return "generator";
}

std::uint64_t Value::Weight() const {
  switch (kind()) {
    case ValueKind::kText:
      return text().size();
    case ValueKind::kSequence:
      return sequence().weight;
    case ValueKind::kDict:
      return dict().weight;
    default:
      return 0;
  }
}

int Value::Depth() const {
  if (is(ValueKind::kSequence)) return sequence().depth;
  return is(ValueKind::kDict) ? dict().depth : 0;
}

const Value* DictValue::Find(std::string_view key) const {
  const auto found = by_text.find(std::string(key));
  return found == by_text.end() ? nullptr : &entries[found->second].second;
}

const Value* DictValue::Find(const Value& key) const {
  if (key.is_text()) return Find(std::string_view(key.text()));
  for (const auto& [present, value] : entries) {
    if (!present.is_text() && Equal(present, key)) return &value;
  }
  return nullptr;
}

std::optional<Value> Namespace::Get(const std::string& name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? std::nullopt : std::optional(found->second);
}

bool Namespace::Set(const std::string& name, Value value) {
  attributes_.insert_or_assign(name, std::move(value));
  return true;
}

std::vector<Value> Elements(const Value& value) {
  std::vector<Value> elements;
  if (value.is_undefined()) return elements;
  if (value.is(ValueKind::kSequence)) {
    const SequenceValue& sequence = value.sequence();
    if (sequence.kind != SequenceKind::kGenerator) return sequence.items;
    if (!sequence.exhausted) elements = sequence.items;
    sequence.exhausted = true;
    return elements;
  }
  if (value.is(ValueKind::kDict)) {
    for (const auto& [key, unused] : value.dict().entries) elements.push_back(key);
    return elements;
  }
  if (value.is_text()) {
    for (const std::string_view character : Characters(value.text())) {
      elements.push_back(Value::Text(std::string(character)));
    }
    return elements;
  }
  Fail(fmt::format("'{}' object is not iterable", value.TypeName()));
}

std::int64_t Length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return static_cast<std::int64_t>(CountCharacters(value.text()));
  if (value.is(ValueKind::kDict)) return static_cast<std::int64_t>(value.dict().entries.size());
  if (value.is(ValueKind::kSequence) && value.sequence().kind != SequenceKind::kGenerator) {
    return static_cast<std::int64_t>(value.sequence().items.size());
  }
  Fail(fmt::format("object of type '{}' has no len()", value.TypeName()));
}

bool Equal(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.integer() == right.integer();
  if (left.is_number() && right.is_number()) return left.number() == right.number();
  if (AreAlike(left, right)) return EqualItems(left.sequence().items, right.sequence().items);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return true;
    case ValueKind::kText:
      return left.text() == right.text();
    case ValueKind::kDict:
      return EqualDicts(left.dict(), right.dict());
    case ValueKind::kNamespace:
      return &left.space() == &right.space();
    case ValueKind::kCallable:
      return left.callable() == right.callable();
    default:
      return false;
  }
}

int Compare(const Value& left, const Value& right) {
  if (left.is_undefined()) Fail(left.why_undefined());
  if (right.is_undefined()) Fail(right.why_undefined());
  if (left.is_integer() && right.is_integer()) return Order(left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return Order(left.number(), right.number());
  // The order of UTF-8 bytes is that of code points.
  if (left.is_text() && right.is_text()) return Order(left.text(), right.text());
  if (AreAlike(left, right) && left.sequence().has_indices()) {
    const auto& first = left.sequence().items;
    const auto& second = right.sequence().items;
    for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (!Equal(first[i], second[i])) return Compare(first[i], second[i]);
    }
    return Order(first.size(), second.size());
  }
  Fail(fmt::format("'{}' and '{}' have no order", left.TypeName(), right.TypeName()));
}

bool Contains(const Value& haystack, const Value& needle) {
  if (haystack.is_text()) {
    if (needle.is_undefined()) Fail(needle.why_undefined());
    if (!needle.is_text()) {
      Fail(fmt::format("'in <string>' requires string as left operand, not {}", needle.TypeName()));
    }
    return haystack.text().find(needle.text()) != std::string::npos;
  }
  if (haystack.is(ValueKind::kDict)) {
    if (needle.is(ValueKind::kDict) || needle.is(ValueKind::kSequence)) {
      Fail(fmt::format("unhashable type: '{}'", needle.TypeName()));
    }
    return haystack.dict().Find(needle) != nullptr;
  }
  const std::vector<Value> elements = Elements(haystack);
  return std::any_of(elements.begin(), elements.end(),
                     [&](const Value& element) { return Equal(element, needle); });
}

}  // namespace twin::text::jinja
