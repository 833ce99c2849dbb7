#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/callable.h"
#include "apps/serve/text/template/evaluation_depth.h"
#include "apps/serve/text/template/evaluator.h"
#include "apps/serve/text/template/json_text.h"
#include "apps/serve/text/template/python_text.h"

namespace twin::text::jinja {

Value Evaluator::Evaluate(const Expression& expression) {
  const Depth depth(*this);
  machine_.budget.Spend(1);
  line_ = expression.line;
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return EvaluateName(expression);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return EvaluateList(expression);
    case ExpressionKind::kDict:
      return EvaluateDict(expression);
    case ExpressionKind::kAttribute:
      return GetAttribute(Evaluate(*expression.children[0]), expression.name);
    case ExpressionKind::kItem: {
      const Value object = Evaluate(*expression.children[0]);
      const Value key = Evaluate(*expression.children[1]);
      if (object.is_text()) machine_.budget.SpendBytes(object.Weight());
      return GetItem(object, key);
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression);
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest:
      return EvaluateBuiltin(expression);
    case ExpressionKind::kNot:
      return Value::Bool(!Evaluate(*expression.children[0]).Truth());
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
      return EvaluateSign(expression);
    case ExpressionKind::kArithmetic:
      return EvaluateArithmetic(expression);
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return EvaluateLogical(expression);
    case ExpressionKind::kConditional:
      break;
  }
  return EvaluateConditional(expression);
}

Value Evaluator::EvaluateName(const Expression& expression) {
  const std::string& name = expression.name;
  if (const Value* const value = scope_->Find(name)) return *value;
  if (const auto known = converted_.find(name); known != converted_.end()) return known->second;
  if (const auto given = variables_.find(name); given != variables_.end()) {
    Value value = FromJson(*given);
    converted_.emplace(name, value);
    return value;
  }
  if (const Builtin* const function = FindFunction(name)) {
    return Value::Of(std::make_shared<const BoundBuiltin>(function, Value()));
  }
  return Value::Undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::EvaluateList(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.children.size());
  for (const auto& child : expression.children) items.push_back(Evaluate(*child));
  return expression.kind == ExpressionKind::kTuple ? Value::Tuple(std::move(items))
                                                   : Value::List(std::move(items));
}

Value Evaluator::EvaluateDict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i < expression.children.size(); i += 2) {
    Value key = Evaluate(*expression.children[i]);
    entries.emplace_back(std::move(key), Evaluate(*expression.children[i + 1]));
  }
  return Value::Dict(std::move(entries));
}

Value Evaluator::EvaluateSlice(const Expression& expression) {
  const Value object = Evaluate(*expression.children[0]);
  std::array<std::optional<Value>, 3> bounds;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const auto& bound = expression.children[i + 1];
    if (bound != nullptr) bounds[i] = Evaluate(*bound);
  }
  const auto given = [&](std::size_t i) { return bounds[i] ? &*bounds[i] : nullptr; };
  line_ = expression.line;
  return Slice(machine_, object, given(0), given(1), given(2));
}

Arguments Evaluator::EvaluateArguments(const Expression& expression) {
  Arguments arguments;
  for (std::size_t i = 1; i < expression.children.size(); ++i) {
    arguments.positional.emplace_back(Evaluate(*expression.children[i]));
  }
  for (const auto& [name, value] : expression.keywords) {
    arguments.named.emplace_back(name, Evaluate(*value));
  }
  return arguments;
}

Value Evaluator::EvaluateCall(const Expression& expression, const Value* caller) {
  const Value callee = Evaluate(*expression.children[0]);
  Arguments arguments = EvaluateArguments(expression);
  line_ = expression.line;
  if (callee.is_undefined()) Fail(callee.why_undefined());
  if (!callee.is(ValueKind::kCallable)) {
    Fail(fmt::format("'{}' object is not callable", callee.TypeName()));
  }
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return callee.callable()->Call(machine_, std::move(arguments));
}

Value Evaluator::EvaluateBuiltin(const Expression& expression) {
  const Expression* const of = expression.children[0].get();
  const Value subject = of == nullptr ? *block_text_ : Evaluate(*of);
  Arguments arguments = EvaluateArguments(expression);
  Bind(*expression.builtin, arguments);
  line_ = expression.line;
  return Apply(machine_, *expression.builtin, subject, arguments);
}

Value Evaluator::EvaluateFilters(const Expression& chain, const Value& innermost) {
  const Value* const outer = std::exchange(block_text_, &innermost);
  Value value = Evaluate(chain);
  block_text_ = outer;
  return value;
}

Value Evaluator::EvaluateSign(const Expression& expression) {
  const Value value = Evaluate(*expression.children[0]);
  if (value.is_undefined()) Fail(value.why_undefined());
  if (!value.is_number()) {
    Fail(fmt::format("bad operand type for unary +/-: '{}'", value.TypeName()));
  }
  if (expression.kind == ExpressionKind::kPositive) {
    return value.is_integer() ? Value::Integer(value.integer()) : value;
  }
  if (!value.is_integer()) return Value::Float(-value.number());
  return Arithmetic(machine_, Value::Integer(0), "-", value);
}

Value Evaluator::EvaluateArithmetic(const Expression& expression) {
  Value result = Evaluate(*expression.children[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    const Value operand = Evaluate(*expression.children[i + 1]);
    line_ = expression.line;
    result = Arithmetic(machine_, result, expression.operators[i], operand);
  }
  return result;
}

Value Evaluator::EvaluateConcat(const Expression& expression) {
  BoundedText text;
  for (const auto& child : expression.children) {
    const Value part = Evaluate(*child);
    machine_.budget.SpendBytes(part.Weight());
    text.Append(ToText(part));
  }
  return Value::Text(text.Take());
}

Value Evaluator::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.children[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.children[i + 1]);
    line_ = expression.line;
    if (!Comparison(machine_, left, expression.operators[i], right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Evaluator::EvaluateLogical(const Expression& expression) {
  // As in Python, the result is the operand that decides.
  const bool decides = expression.kind == ExpressionKind::kOr;
  Value value;
  for (const auto& child : expression.children) {
    value = Evaluate(*child);
    if (value.Truth() == decides) break;
  }
  return value;
}

Value Evaluator::EvaluateConditional(const Expression& expression) {
  if (Evaluate(*expression.children[1]).Truth()) return Evaluate(*expression.children[0]);
  if (expression.children[2] != nullptr) return Evaluate(*expression.children[2]);
  return Value::Undefined("the inline if-expression evaluated to false and has no else");
}

}  // namespace twin::text::jinja
