// Evaluates a parsed template.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/scope.h"
#include "apps/serve/text/template/tree.h"

namespace twin::text::jinja {

// One rendering of one template; borrows the template, the variables and the clock.
class Evaluator {
 public:
  // `variables`: an object.
  Evaluator(const Block& block, const nlohmann::ordered_json& variables, const LocalClock& clock);

  // Throws Failure; line() then says where.
  std::string Run();
  [[nodiscard]] int line() const { return line_; }

  // For macros: a call with `arguments` of what `macro` defines, in a scope within `around`.
  Value CallMacro(const MacroDefinition& macro, const std::shared_ptr<Scope>& around,
                  Arguments arguments);

 private:
  enum class Flow { kOn, kBreak, kContinue };
  class Depth;

  Flow Execute(const Block& block);
  Flow Execute(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  void ExecuteSet(const Statement& statement);
  void ExecuteSetField(const Statement& statement);
  void DefineMacro(const Statement& statement);
  void ExecuteCallBlock(const Statement& statement);
  void Assign(const std::vector<std::string>& targets, const Value& value);
  std::vector<Value> VisitedElements(const Statement& statement);
  // What the body prints, in a scope within the current one.
  std::string Capture(const Block& body);
  void Print(const Value& value);

  Value Evaluate(const Expression& expression);
  Value EvaluateName(const Expression& expression);
  Value EvaluateList(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateSlice(const Expression& expression);
  Value EvaluateCall(const Expression& expression, const Value* caller = nullptr);
  Value EvaluateBuiltin(const Expression& expression);
  // The filters of a block, applied to what it printed.
  Value EvaluateFilters(const Expression& chain, const Value& innermost);
  Value EvaluateArithmetic(const Expression& expression);
  Value EvaluateConcat(const Expression& expression);
  Value EvaluateCompare(const Expression& expression);
  Value EvaluateLogical(const Expression& expression);
  Value EvaluateConditional(const Expression& expression);
  Value EvaluateSign(const Expression& expression);
  Arguments EvaluateArguments(const Expression& expression);

  const Block& block_;
  const nlohmann::ordered_json& variables_;
  std::unordered_map<std::string, Value> converted_;  // those variables that were read
  Machine machine_;
  std::deque<std::unique_ptr<Namespace>> namespaces_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  BoundedText* out_ = nullptr;
  const Value* block_text_ = nullptr;  // what the filters of a block are applied to
  int line_ = 1;
  int depth_ = 0;
  int macro_depth_ = 0;
};

// Python's operators. `operation` is one of + - * %, or of == != < <= > >= in, "not in".
Value Arithmetic(Machine& machine, const Value& left, const std::string& operation,
                 const Value& right);
bool Comparison(Machine& machine, const Value& left, const std::string& operation,
                const Value& right);
// Python's value[begin:end:step]; nullptr where left out.
Value Slice(Machine& machine, const Value& value, const Value* begin, const Value* end,
            const Value* step);

}  // namespace twin::text::jinja
