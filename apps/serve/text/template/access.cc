// Attributes and items of values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/callable.h"
#include "apps/serve/text/template/python_text.h"

namespace twin::text::jinja {
namespace {

std::string ObjectName(const Value& object) {
  if (object.is(ValueKind::kNone)) return "None";
  return fmt::format("{} object", object.TypeName());
}

// A method, or nullptr. Others than those of the subset are not there: what Python would call is
// refused when the template is loaded.
const Builtin* FindMethod(const Value& object, std::string_view name) {
  if (object.is_text()) return FindTextMethod(name);
  return object.is(ValueKind::kDict) ? FindDictMethod(name) : nullptr;
}

// Position `index` of `length` in Python's counting; -1 if there is none.
std::int64_t Position(std::int64_t index, std::int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

}  // namespace

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
