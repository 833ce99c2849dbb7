// A parsed template: statements and expressions. Parse() makes it from a source.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

// Kinds of expressions, with the members that each uses: C children, N name, K keywords,
// O operators.
enum class ExpressionKind {
  kConstant,     // constant
  kName,         // N
  kList,         // C elements
  kTuple,        // C elements
  kDict,         // C key, value, key, value, ...
  kAttribute,    // C object; N
  kItem,         // C object, index
  kSlice,        // C object, begin, end, step; nullptr where left out
  kCall,         // C callee, positional arguments...; K
  kFilter,       // C subject (nullptr in a filter block), positional arguments...; K; builtin
  kTest,         // C subject, positional arguments...; K; builtin
  kNot,          // C operand
  kNegative,     // C operand
  kPositive,     // C operand
  kArithmetic,   // C operands, O one less: + - or * %, from left to right
  kConcat,       // C operands: a ~ b
  kCompare,      // C operands, O one less: == != < <= > >= in, "not in"; chained as in Python
  kAnd,          // C operands
  kOr,           // C operands
  kConditional,  // C value, condition, other value (nullptr where left out)
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  std::string name = "";
  Value constant = Value();
  std::vector<std::unique_ptr<Expression>> children = {};
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> keywords = {};
  std::vector<std::string> operators = {};
  const Builtin* builtin = nullptr;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Block = std::vector<Statement>;

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Block body;
};

enum class StatementKind {
  kText,         // text
  kPrint,        // value
  kIf,           // branches; otherwise
  kFor,          // targets, value, condition (may be nullptr), body, otherwise
  kSet,          // targets, value
  kSetField,     // targets: a namespace and its attribute; value
  kSetBlock,     // targets, value: filters to apply or nullptr; body
  kMacro,        // macro
  kCallBlock,    // value: the call; macro: the caller
  kFilterBlock,  // value: the filters; body
  kScope,        // body in a scope of its own: generation blocks
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;
  Block body;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text = "";
  std::vector<std::string> targets = {};  // several: the value is unpacked
  ExpressionPtr value = nullptr;
  ExpressionPtr condition = nullptr;
  std::vector<Branch> branches = {};
  Block body = {};
  Block otherwise = {};
  std::shared_ptr<const MacroDefinition> macro = nullptr;
};

// A template that cannot be loaded. Template's constructor turns it into an InputError.
struct SyntaxFailure {
  int line = 0;
  std::string what;
};

// Refuses all that is outside the supported subset of Jinja. Throws SyntaxFailure.
Block Parse(std::string_view source);

}  // namespace twin::text::jinja
