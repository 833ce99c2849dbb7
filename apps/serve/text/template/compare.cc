// Python's comparisons of values.
#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {
namespace {

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

// Lists with lists and tuples with tuples are ordered and equal by their elements.
bool AreAlike(const Value& left, const Value& right) {
  return left.is(ValueKind::kSequence) && right.is(ValueKind::kSequence) &&
         left.sequence().kind == right.sequence().kind &&
         left.sequence().kind != SequenceKind::kGenerator;
}

}  // namespace

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
