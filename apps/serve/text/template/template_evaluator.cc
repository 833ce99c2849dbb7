#include "apps/serve/text/template/template_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/value_text.h"
#include "core/check.h"

namespace twin::text::jinja {

// Reads the variables of the scopes around it and writes its own. Names are borrowed from the
// template.
class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> parent) : parent_(std::move(parent)) {}

  void Set(std::string_view name, Value value) {
    for (auto& [present, content] : variables_) {
      if (present == name) {
        content = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }

  // nullptr if no scope has it.
  [[nodiscard]] const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [present, content] : scope->variables_) {
        if (present == name) return &content;
      }
    }
    return nullptr;
  }

 private:
  std::shared_ptr<const Scope> parent_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

// Counts how deep an evaluation is, which bounds its stack.
class TemplateEvaluator::Depth {
 public:
  explicit Depth(TemplateEvaluator& evaluator) : evaluator_(evaluator) {
    if (evaluator_.depth_ == kEvaluationDepthMost) {
      Fail(fmt::format("the evaluation nests deeper than {} levels", kEvaluationDepthMost));
    }
    ++evaluator_.depth_;
  }
  ~Depth() { --evaluator_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  TemplateEvaluator& evaluator_;
};

namespace {

// The variable `loop` of a for statement.
class Loop : public Namespace {
 public:
  Loop(std::vector<Value> items, int depth) : items_(std::move(items)), depth_(depth) {}

  [[nodiscard]] const std::vector<Value>& items() const { return items_; }
  void MoveTo(std::size_t index) { at_ = static_cast<std::int64_t>(index); }

  bool Set(const std::string& /*name*/, Value /*value*/) override { return false; }

  [[nodiscard]] std::optional<Value> Get(const std::string& name) const override {
    const auto length = static_cast<std::int64_t>(items_.size());
    if (name == "index") return Value::Integer(at_ + 1);
    if (name == "index0") return Value::Integer(at_);
    if (name == "revindex") return Value::Integer(length - at_);
    if (name == "revindex0") return Value::Integer(length - at_ - 1);
    if (name == "first") return Value::Bool(at_ == 0);
    if (name == "last") return Value::Bool(at_ + 1 == length);
    if (name == "length") return Value::Integer(length);
    if (name == "depth") return Value::Integer(depth_);
    if (name == "depth0") return Value::Integer(depth_ - 1);
    if (name == "previtem") return ItemAt(at_ - 1, "there is no previous item");
    if (name == "nextitem") return ItemAt(at_ + 1, "there is no next item");
    return std::nullopt;
  }

 private:
  [[nodiscard]] Value ItemAt(std::int64_t at, const char* absent) const {
    const bool exists = at >= 0 && at < static_cast<std::int64_t>(items_.size());
    return exists ? items_[static_cast<std::size_t>(at)] : Value::Undefined(absent);
  }

  std::vector<Value> items_;
  std::int64_t at_ = 0;
  int depth_;
};

// A macro, or the body of a call block. The scope around a body ends with the block's statement,
// though the value may be kept: a namespace may hold it.
struct MacroValue : Callable {
  MacroValue(TemplateEvaluator* by, const MacroDefinition* what, std::weak_ptr<Scope> in)
      : evaluator(by), macro(what), around(std::move(in)) {}

  Value Call(Machine& /*machine*/, Arguments arguments) const override {
    const std::shared_ptr<Scope> scope = around.lock();
    if (scope == nullptr) Fail(fmt::format("{}() is called after its block", macro->name));
    return evaluator->CallMacro(*macro, scope, std::move(arguments));
  }

  TemplateEvaluator* evaluator;
  const MacroDefinition* macro;
  std::weak_ptr<Scope> around;
};

// Moves named arguments to the positions of their parameters, and the one named `caller` to
// `caller` unless that is a parameter.
Arguments InOrder(const MacroDefinition& macro, Arguments arguments, Value& caller) {
  const auto& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    Fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name,
                     parameters.size()));
  }
  arguments.positional.resize(parameters.size());
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end() && name == "caller") {
      caller = std::move(value);
      continue;
    }
    if (found == parameters.end()) {
      Fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
    }
    auto& argument = arguments.positional[static_cast<std::size_t>(found - parameters.begin())];
    if (argument) Fail(fmt::format("macro '{}' got '{}' twice", macro.name, name));
    argument = std::move(value);
  }
  return arguments;
}

}  // namespace

TemplateEvaluator::TemplateEvaluator(const Block& block, const nlohmann::ordered_json& variables,
                                     const LocalClock& clock)
    : block_(block), variables_(variables), root_(std::make_shared<Scope>(nullptr)), scope_(root_) {
  CHECK(variables.is_object());
  machine_.clock = &clock;
  machine_.make_namespace = [this] {
    namespaces_.push_back(std::make_unique<Namespace>());
    return namespaces_.back().get();
  };
}

std::string TemplateEvaluator::Run() {
  BoundedText out;
  out_ = &out;
  Execute(block_);
  return out.Take();
}

TemplateEvaluator::Flow TemplateEvaluator::Execute(const Block& block) {
  for (const Statement& statement : block) {
    const Flow flow = Execute(statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

TemplateEvaluator::Flow TemplateEvaluator::Execute(const Statement& statement) {
  const Depth depth(*this);
  machine_.budget.Spend(1);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      machine_.budget.SpendBytes(statement.text.size());
      out_->Append(statement.text);
      return Flow::kOn;
    case StatementKind::kPrint:
      Print(Evaluate(*statement.value));
      return Flow::kOn;
    case StatementKind::kIf:
      return ExecuteIf(statement);
    case StatementKind::kFor:
      return ExecuteFor(statement);
    case StatementKind::kSet:
    case StatementKind::kSetBlock:
      ExecuteSet(statement);
      return Flow::kOn;
    case StatementKind::kSetField:
      ExecuteSetField(statement);
      return Flow::kOn;
    case StatementKind::kMacro:
      DefineMacro(statement);
      return Flow::kOn;
    case StatementKind::kCallBlock:
      ExecuteCallBlock(statement);
      return Flow::kOn;
    case StatementKind::kFilterBlock:
      Print(EvaluateFilters(*statement.value, Value::Text(Capture(statement.body))));
      return Flow::kOn;
    case StatementKind::kScope:
      Print(Value::Text(Capture(statement.body)));
      return Flow::kOn;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      break;
  }
  return Flow::kContinue;
}

void TemplateEvaluator::Print(const Value& value) {
  machine_.budget.SpendBytes(value.Weight());
  if (value.is_text()) {
    out_->Append(value.text());
  } else {
    out_->Append(ToText(value));
  }
}

TemplateEvaluator::Flow TemplateEvaluator::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (Evaluate(*branch.condition).Truth()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

std::vector<Value> TemplateEvaluator::VisitedElements(const Statement& statement) {
  const Value visited = Evaluate(*statement.value);
  line_ = statement.line;
  std::vector<Value> elements = Elements(visited);
  machine_.budget.Spend(elements.size());
  if (statement.condition == nullptr) return elements;
  std::vector<Value> selected;
  const std::shared_ptr<Scope> outer = scope_;
  for (const Value& element : elements) {
    scope_ = std::make_shared<Scope>(outer);
    Assign(statement.targets, element);
    if (Evaluate(*statement.condition).Truth()) selected.push_back(element);
  }
  scope_ = outer;
  return selected;
}

TemplateEvaluator::Flow TemplateEvaluator::ExecuteFor(const Statement& statement) {
  std::vector<Value> elements = VisitedElements(statement);
  const std::shared_ptr<Scope> outer = scope_;
  if (elements.empty()) {
    scope_ = std::make_shared<Scope>(outer);
    const Flow flow = Execute(statement.otherwise);
    scope_ = outer;
    return flow;
  }
  // Only recursive loops count deeper than 1, and the subset has none.
  auto owned = std::make_unique<Loop>(std::move(elements), 1);
  Loop& loop = *owned;
  namespaces_.push_back(std::move(owned));
  for (std::size_t i = 0; i < loop.items().size(); ++i) {
    loop.MoveTo(i);
    scope_ = std::make_shared<Scope>(outer);
    scope_->Set("loop", Value::Of(&loop));
    Assign(statement.targets, loop.items()[i]);
    if (Execute(statement.body) == Flow::kBreak) break;
  }
  scope_ = outer;
  return Flow::kOn;
}

void TemplateEvaluator::Assign(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    scope_->Set(targets.front(), value);
    return;
  }
  if (value.is_undefined()) Fail(value.why_undefined());
  const std::vector<Value> parts = Elements(value);
  if (parts.size() != targets.size()) {
    Fail(fmt::format("{} values cannot be unpacked into {} variables", parts.size(),
                     targets.size()));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) scope_->Set(targets[i], parts[i]);
}

void TemplateEvaluator::ExecuteSet(const Statement& statement) {
  if (statement.kind == StatementKind::kSet) {
    Assign(statement.targets, Evaluate(*statement.value));
    return;
  }
  Value text = Value::Text(Capture(statement.body));
  if (statement.value != nullptr) text = EvaluateFilters(*statement.value, text);
  Assign(statement.targets, text);
}

void TemplateEvaluator::ExecuteSetField(const Statement& statement) {
  Value value = Evaluate(*statement.value);
  line_ = statement.line;
  const Value* const target = scope_->Find(statement.targets[0]);
  const bool done = target != nullptr && target->is(ValueKind::kNamespace) &&
                    target->space().Set(statement.targets[1], std::move(value));
  if (!done) Fail("cannot assign attribute on non-namespace object");
}

void TemplateEvaluator::DefineMacro(const Statement& statement) {
  const std::string& name = statement.macro->name;
  scope_->Set(name,
              Value::Of(std::make_shared<const MacroValue>(this, statement.macro.get(), root_)));
}

void TemplateEvaluator::ExecuteCallBlock(const Statement& statement) {
  const Value caller =
      Value::Of(std::make_shared<const MacroValue>(this, statement.macro.get(), scope_));
  Print(EvaluateCall(*statement.value, &caller));
}

std::string TemplateEvaluator::Capture(const Block& body) {
  BoundedText text;
  BoundedText* const outer_out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(outer);
  Execute(body);
  scope_ = outer;
  out_ = outer_out;
  return text.Take();
}

Value TemplateEvaluator::CallMacro(const MacroDefinition& macro,
                                   const std::shared_ptr<Scope>& around, Arguments arguments) {
  if (macro_depth_ == kNestingMost) {
    Fail(fmt::format("macro calls nest deeper than {} levels", kNestingMost));
  }
  ++macro_depth_;
  Value caller;
  const Arguments given = InOrder(macro, std::move(arguments), caller);
  const std::shared_ptr<Scope> outer = scope_;
  const int line = line_;
  scope_ = std::make_shared<Scope>(around);
  // The body of a call block gets no caller: `caller` is that of the macro around it.
  if (!caller.is_undefined()) scope_->Set("caller", std::move(caller));
  const std::size_t without_default = macro.parameters.size() - macro.defaults.size();
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const std::string& name = macro.parameters[i];
    if (const Value* const value = given.At(i)) {
      scope_->Set(name, *value);
    } else if (i >= without_default) {
      scope_->Set(name, Evaluate(*macro.defaults[i - without_default]));
    } else {
      scope_->Set(name, Value::Undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
  std::string text = Capture(macro.body);
  scope_ = outer;
  line_ = line;
  --macro_depth_;
  return Value::Text(std::move(text));
}

Value TemplateEvaluator::Evaluate(const Expression& expression) {
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

Value TemplateEvaluator::EvaluateName(const Expression& expression) {
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

Value TemplateEvaluator::EvaluateList(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.children.size());
  for (const auto& child : expression.children) items.push_back(Evaluate(*child));
  return expression.kind == ExpressionKind::kTuple ? Value::Tuple(std::move(items))
                                                   : Value::List(std::move(items));
}

Value TemplateEvaluator::EvaluateDict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i < expression.children.size(); i += 2) {
    Value key = Evaluate(*expression.children[i]);
    entries.emplace_back(std::move(key), Evaluate(*expression.children[i + 1]));
  }
  return Value::Dict(std::move(entries));
}

Value TemplateEvaluator::EvaluateSlice(const Expression& expression) {
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

Arguments TemplateEvaluator::EvaluateArguments(const Expression& expression) {
  Arguments arguments;
  for (std::size_t i = 1; i < expression.children.size(); ++i) {
    arguments.positional.emplace_back(Evaluate(*expression.children[i]));
  }
  for (const auto& [name, value] : expression.keywords) {
    arguments.named.emplace_back(name, Evaluate(*value));
  }
  return arguments;
}

Value TemplateEvaluator::EvaluateCall(const Expression& expression, const Value* caller) {
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

Value TemplateEvaluator::EvaluateBuiltin(const Expression& expression) {
  const Expression* const of = expression.children[0].get();
  const Value subject = of == nullptr ? *block_text_ : Evaluate(*of);
  Arguments arguments = EvaluateArguments(expression);
  Bind(*expression.builtin, arguments);
  line_ = expression.line;
  return Apply(machine_, *expression.builtin, subject, arguments);
}

Value TemplateEvaluator::EvaluateFilters(const Expression& chain, const Value& innermost) {
  const Value* const outer = std::exchange(block_text_, &innermost);
  Value value = Evaluate(chain);
  block_text_ = outer;
  return value;
}

Value TemplateEvaluator::EvaluateSign(const Expression& expression) {
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

Value TemplateEvaluator::EvaluateArithmetic(const Expression& expression) {
  Value result = Evaluate(*expression.children[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    const Value operand = Evaluate(*expression.children[i + 1]);
    line_ = expression.line;
    result = Arithmetic(machine_, result, expression.operators[i], operand);
  }
  return result;
}

Value TemplateEvaluator::EvaluateConcat(const Expression& expression) {
  BoundedText text;
  for (const auto& child : expression.children) {
    const Value part = Evaluate(*child);
    machine_.budget.SpendBytes(part.Weight());
    text.Append(ToText(part));
  }
  return Value::Text(text.Take());
}

Value TemplateEvaluator::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.children[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.children[i + 1]);
    line_ = expression.line;
    if (!Comparison(machine_, left, expression.operators[i], right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value TemplateEvaluator::EvaluateLogical(const Expression& expression) {
  // As in Python, the result is the operand that decides.
  const bool decides = expression.kind == ExpressionKind::kOr;
  Value value;
  for (const auto& child : expression.children) {
    value = Evaluate(*child);
    if (value.Truth() == decides) break;
  }
  return value;
}

Value TemplateEvaluator::EvaluateConditional(const Expression& expression) {
  if (Evaluate(*expression.children[1]).Truth()) return Evaluate(*expression.children[0]);
  if (expression.children[2] != nullptr) return Evaluate(*expression.children[2]);
  return Value::Undefined("the inline if-expression evaluated to false and has no else");
}

}  // namespace twin::text::jinja
