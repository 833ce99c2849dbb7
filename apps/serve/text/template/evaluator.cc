#include "apps/serve/text/template/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/callable.h"
#include "apps/serve/text/template/evaluation_depth.h"
#include "apps/serve/text/template/python_text.h"
#include "core/check.h"

namespace twin::text::jinja {
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
  MacroValue(Evaluator* by, const MacroDefinition* what, std::weak_ptr<Scope> in)
      : evaluator(by), macro(what), around(std::move(in)) {}

  Value Call(Machine& /*machine*/, Arguments arguments) const override {
    const std::shared_ptr<Scope> scope = around.lock();
    if (scope == nullptr) Fail(fmt::format("{}() is called after its block", macro->name));
    return evaluator->CallMacro(*macro, scope, std::move(arguments));
  }

  Evaluator* evaluator;
  const MacroDefinition* macro;
  std::weak_ptr<Scope> around;
};

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

Evaluator::Evaluator(const Block& block, const nlohmann::ordered_json& variables,
                     const LocalClock& clock)
    : block_(block), variables_(variables), root_(std::make_shared<Scope>(nullptr)), scope_(root_) {
  CHECK(variables.is_object());
  machine_.clock = &clock;
  machine_.make_namespace = [this] {
    namespaces_.push_back(std::make_unique<Namespace>());
    return namespaces_.back().get();
  };
}

std::string Evaluator::Run() {
  BoundedText out;
  out_ = &out;
  Execute(block_);
  return out.Take();
}

Evaluator::Flow Evaluator::Execute(const Block& block) {
  for (const Statement& statement : block) {
    const Flow flow = Execute(statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::Execute(const Statement& statement) {
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

void Evaluator::Print(const Value& value) {
  machine_.budget.SpendBytes(value.Weight());
  if (value.is_text()) {
    out_->Append(value.text());
  } else {
    out_->Append(ToText(value));
  }
}

Evaluator::Flow Evaluator::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (Evaluate(*branch.condition).Truth()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

std::vector<Value> Evaluator::VisitedElements(const Statement& statement) {
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

Evaluator::Flow Evaluator::ExecuteFor(const Statement& statement) {
  std::vector<Value> elements = VisitedElements(statement);
  const std::shared_ptr<Scope> outer = scope_;
  if (elements.empty()) {
    scope_ = std::make_shared<Scope>(outer);
    const Flow flow = Execute(statement.otherwise);
    scope_ = outer;
    return flow;
  }
  // Only recursive loops, which there are none of, count deeper than 1.
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

void Evaluator::Assign(const std::vector<std::string>& targets, const Value& value) {
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

void Evaluator::ExecuteSet(const Statement& statement) {
  if (statement.kind == StatementKind::kSet) {
    Assign(statement.targets, Evaluate(*statement.value));
    return;
  }
  Value text = Value::Text(Capture(statement.body));
  if (statement.value != nullptr) text = EvaluateFilters(*statement.value, text);
  Assign(statement.targets, text);
}

void Evaluator::ExecuteSetField(const Statement& statement) {
  Value value = Evaluate(*statement.value);
  line_ = statement.line;
  const Value* const target = scope_->Find(statement.targets[0]);
  const bool done = target != nullptr && target->is(ValueKind::kNamespace) &&
                    target->space().Set(statement.targets[1], std::move(value));
  if (!done) Fail("cannot assign attribute on non-namespace object");
}

void Evaluator::DefineMacro(const Statement& statement) {
  const std::string& name = statement.macro->name;
  scope_->Set(name,
              Value::Of(std::make_shared<const MacroValue>(this, statement.macro.get(), root_)));
}

void Evaluator::ExecuteCallBlock(const Statement& statement) {
  const Value caller =
      Value::Of(std::make_shared<const MacroValue>(this, statement.macro.get(), scope_));
  Print(EvaluateCall(*statement.value, &caller));
}

std::string Evaluator::Capture(const Block& body) {
  BoundedText text;
  BoundedText* const outer_out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(outer);
  Execute(body);
  scope_ = outer;
  out_ = outer_out;
  return text.Take();
}

Value Evaluator::CallMacro(const MacroDefinition& macro, const std::shared_ptr<Scope>& around,
                           Arguments arguments) {
  if (macro_depth_ == kNestingMost) {
    Fail(fmt::format("macro calls nest deeper than {} levels", kNestingMost));
  }
  ++macro_depth_;
  Value caller;
  const Arguments given = InOrder(macro, std::move(arguments), caller);
  const std::shared_ptr<Scope> outer = scope_;
  const int line = line_;
  scope_ = std::make_shared<Scope>(around);
  // Within a call block `caller` is the one of the macro around it.
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

}  // namespace twin::text::jinja
