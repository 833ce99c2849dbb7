// Python's operators on values; their attributes and items.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/template/value_text.h"

namespace twin::text::jinja {
namespace {

[[noreturn]] void FailOperands(const Value& left, const std::string& operation,
                               const Value& right) {
  if (left.is_undefined()) Fail(left.why_undefined());
  if (right.is_undefined()) Fail(right.why_undefined());
  Fail(fmt::format("unsupported operand types for {}: '{}' and '{}'", operation, left.TypeName(),
                   right.TypeName()));
}

std::int64_t IntegerArithmetic(std::int64_t left, char operation, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  if (operation == '+') overflow = __builtin_add_overflow(left, right, &result);
  if (operation == '-') overflow = __builtin_sub_overflow(left, right, &result);
  if (operation == '*') overflow = __builtin_mul_overflow(left, right, &result);
  if (operation == '%') {
    if (right == 0) Fail("integer modulo by zero");
    if (right == -1) return 0;
    result = left % right;
    // Python's remainder has the sign of the divisor.
    if (result != 0 && (result < 0) != (right < 0)) result += right;
  }
  if (overflow) Fail("an integer grows beyond 64 bits");
  return result;
}

Value FloatArithmetic(double left, char operation, double right) {
  if (operation == '+') return Value::Float(left + right);
  if (operation == '-') return Value::Float(left - right);
  if (operation == '*') return Value::Float(left * right);
  Fail("% of floating-point numbers is outside the supported subset of Jinja");
}

// Joins two texts. If one is marked safe the other one is escaped, as markupsafe does.
Value AddTexts(const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  BoundedText sum;
  for (const Value* part : {&left, &right}) {
    sum.Append(markup && !part->is_markup() ? EscapeMarkup(part->text()) : part->text());
  }
  return Value::Text(sum.Take(), markup);
}

Value AddSequences(const SequenceValue& left, const SequenceValue& right) {
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return Value::Sequence({.kind = left.kind, .items = std::move(items)});
}

Value Repeat(const Value& value, std::int64_t count) {
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  if (value.is_text()) {
    BoundedText text;
    text.Repeat(value.text(), times);
    return Value::Text(text.Take(), value.is_markup());
  }
  const SequenceValue& sequence = value.sequence();
  if (!sequence.items.empty() && times > kElementsMost / sequence.items.size()) {
    Fail(fmt::format("a list has more than {} elements", kElementsMost));
  }
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < times && !sequence.items.empty(); ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return Value::Sequence({.kind = sequence.kind, .items = std::move(items)});
}

bool IsListOrTuple(const Value& value) {
  return value.is(ValueKind::kSequence) && (value.sequence().kind == SequenceKind::kList ||
                                            value.sequence().kind == SequenceKind::kTuple);
}

Value ArithmeticOf(const Value& left, const std::string& operation, const Value& right) {
  const char symbol = operation.front();
  if (left.is_integer() && right.is_integer()) {
    return Value::Integer(IntegerArithmetic(left.integer(), symbol, right.integer()));
  }
  if (left.is_number() && right.is_number()) {
    return FloatArithmetic(left.number(), symbol, right.number());
  }
  if (symbol == '+' && left.is_text() && right.is_text()) return AddTexts(left, right);
  const bool lists = IsListOrTuple(left) && IsListOrTuple(right);
  if (symbol == '+' && lists && left.sequence().kind == right.sequence().kind) {
    return AddSequences(left.sequence(), right.sequence());
  }
  if (symbol == '*') {
    if ((left.is_text() || IsListOrTuple(left)) && right.is_integer()) {
      return Repeat(left, right.integer());
    }
    if (left.is_integer() && (right.is_text() || IsListOrTuple(right))) {
      return Repeat(right, left.integer());
    }
  }
  if (symbol == '%' && left.is_text()) {
    Fail("'%' on a text is outside the supported subset of Jinja; use format()");
  }
  FailOperands(left, operation, right);
}

// A bound of a slice, counted from the start and clamped to [lowest, highest].
std::int64_t Bound(const Value* value, std::int64_t absent, std::int64_t lowest,
                   std::int64_t highest, std::int64_t length) {
  if (value == nullptr || value->is(ValueKind::kNone)) return absent;
  if (value->is_undefined()) Fail(value->why_undefined());
  if (!value->is_integer()) Fail("slice indices must be integers or None");
  const std::int64_t index = value->integer();
  return std::clamp(index < 0 ? index + length : index, lowest, highest);
}

// Indices that a slice selects of `length` elements.
std::vector<std::size_t> SliceIndices(std::int64_t length, const Value* begin, const Value* end,
                                      const Value* step_value) {
  std::int64_t step = 1;
  if (step_value != nullptr && !step_value->is(ValueKind::kNone)) {
    if (!step_value->is_integer()) Fail("slice indices must be integers or None");
    // A larger step also selects one element at most.
    step = std::clamp<std::int64_t>(step_value->integer(), -length - 1, length + 1);
  }
  if (step == 0) Fail("slice step cannot be zero");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? length - 1 : length;
  std::int64_t at = Bound(begin, step < 0 ? highest : lowest, lowest, highest, length);
  const std::int64_t stop = Bound(end, step < 0 ? lowest : highest, lowest, highest, length);
  std::vector<std::size_t> indices;
  for (; step < 0 ? at > stop : at < stop; at += step) {
    indices.push_back(static_cast<std::size_t>(at));
  }
  return indices;
}

std::string ObjectName(const Value& object) {
  if (object.is(ValueKind::kNone)) return "None";
  return fmt::format("{} object", object.TypeName());
}

// A method of the subset, or nullptr. Calls of Python's other methods are refused when the template
// is loaded.
const Builtin* FindMethod(const Value& object, std::string_view name) {
  if (object.is_text()) return FindTextMethod(name);
  return object.is(ValueKind::kDict) ? FindDictMethod(name) : nullptr;
}

// Index from the start of Python's `index` in `length` elements; -1 if there is none.
std::int64_t Position(std::int64_t index, std::int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

}  // namespace

Value Arithmetic(Machine& machine, const Value& left, const std::string& operation,
                 const Value& right) {
  machine.budget.SpendBytes(left.Weight() + right.Weight());
  Value result = ArithmeticOf(left, operation, right);
  machine.budget.SpendBytes(result.Weight());
  return result;
}

bool Comparison(Machine& machine, const Value& left, const std::string& operation,
                const Value& right) {
  machine.budget.SpendBytes(left.Weight() + right.Weight());
  if (operation == "==") return Equal(left, right);
  if (operation == "!=") return !Equal(left, right);
  if (operation == "in") return Contains(right, left);
  if (operation == "not in") return !Contains(right, left);
  const int order = Compare(left, right);
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  return operation == ">" ? order > 0 : order >= 0;
}

Value Slice(Machine& machine, const Value& value, const Value* begin, const Value* end,
            const Value* step) {
  if (value.is_undefined()) Fail(value.why_undefined());
  machine.budget.SpendBytes(value.Weight());
  if (value.is_text()) {
    const std::vector<std::string_view> characters = Characters(value.text());
    std::string text;
    for (const std::size_t i :
         SliceIndices(static_cast<std::int64_t>(characters.size()), begin, end, step)) {
      text += characters[i];
    }
    return Value::Text(std::move(text), value.is_markup());
  }
  if (!value.is(ValueKind::kSequence) || !value.sequence().has_indices()) {
    return Value::Undefined(fmt::format("'{} object' has no slices", value.TypeName()));
  }
  const SequenceValue& sequence = value.sequence();
  std::vector<Value> items;
  for (const std::size_t i : SliceIndices(Length(value), begin, end, step)) {
    items.push_back(sequence.items[i]);
  }
  return Value::Sequence({.kind = sequence.kind, .items = std::move(items)});
}

Value GetAttribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) Fail(object.why_undefined());
  if (object.is(ValueKind::kNamespace)) {
    if (std::optional<Value> value = object.space().Get(name)) return *std::move(value);
  } else if (const Builtin* const method = FindMethod(object, name)) {
    return Value::Of(std::make_shared<const BoundBuiltin>(method, object));
  } else if (IsRefusedMethod(object.kind(), name)) {
    return Value::Undefined(
        fmt::format("method '{}' of a {} is refused: templates must not change values", name,
                    object.TypeName()));
  } else if (object.is(ValueKind::kDict)) {
    if (const Value* const value = object.dict().Find(name)) return *value;
  }
  return Value::Undefined(fmt::format("'{}' has no attribute '{}'", ObjectName(object), name));
}

Value GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) Fail(object.why_undefined());
  if (object.is(ValueKind::kDict)) {
    if (const Value* const value = object.dict().Find(key)) return *value;
  }
  const bool has_indices =
      object.is_text() || (object.is(ValueKind::kSequence) && object.sequence().has_indices());
  if (has_indices && key.is_integer()) {
    const std::int64_t at = Position(key.integer(), Length(object));
    if (at >= 0) {
      const auto index = static_cast<std::size_t>(at);
      if (!object.is_text()) return object.sequence().items[index];
      return Value::Text(std::string(Characters(object.text())[index]), object.is_markup());
    }
  }
  if (key.is_text()) return GetAttribute(object, key.text());
  return Value::Undefined(fmt::format("'{}' has no element {}", ObjectName(object),
                                      key.is_number() ? ToText(key) : "of that key"));
}

}  // namespace twin::text::jinja
