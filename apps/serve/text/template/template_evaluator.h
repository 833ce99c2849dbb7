// Evaluates a parsed template.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/tree.h"

namespace twin::text::jinja {

class Scope;

// One rendering of one template; borrows the template, the variables and the clock.
class TemplateEvaluator {
 public:
  // `variables`: an object.
  TemplateEvaluator(const Block& block, const nlohmann::ordered_json& variables,
                    const LocalClock& clock);

  // Returns the output. Throws Failure; line() then says where.
  std::string Run();
  [[nodiscard]] int line() const { return line_; }

  // Prints the body of `macro` in a new scope within `around`. MacroValue calls it.
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
  // Executes `body` in a scope within the current one; returns its output.
  std::string Capture(const Block& body);
  void Print(const Value& value);

  Value Evaluate(const Expression& expression);
  Value EvaluateName(const Expression& expression);
  Value EvaluateList(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateSlice(const Expression& expression);
  Value EvaluateCall(const Expression& expression, const Value* caller = nullptr);
  Value EvaluateBuiltin(const Expression& expression);
  // Applies the filters of a block to the text that the block printed.
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
  std::unordered_map<std::string, Value> converted_;  // variables that were read so far
  Machine machine_;
  std::deque<std::unique_ptr<Namespace>> namespaces_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  BoundedText* out_ = nullptr;
  const Value* block_text_ = nullptr;  // output of a block, which its filters are applied to
  int line_ = 1;
  int depth_ = 0;
  int macro_depth_ = 0;
};

}  // namespace twin::text::jinja
