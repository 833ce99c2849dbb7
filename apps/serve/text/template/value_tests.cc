// Tests: what may stand behind `is`.
#include <algorithm>

#include "apps/serve/text/template/builtin.h"

namespace twin::text::jinja {
namespace {

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

// What has a length and elements in brackets: texts and dicts too, and undefined values.
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

const std::vector<Builtin>& Tests() {
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
  return *kTests;
}

}  // namespace

const Builtin* FindTest(std::string_view name) {
  const auto found = std::find_if(Tests().begin(), Tests().end(),
                                  [&](const Builtin& test) { return test.name == name; });
  return found == Tests().end() ? nullptr : &*found;
}

}  // namespace twin::text::jinja
