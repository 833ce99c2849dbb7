// Parts of the parser of templates: its tokens, and the parser of expressions. Parse() is in
// tree.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/text/template/tree.h"

namespace twin::text::jinja {

enum class TokenKind {
  kText,            // outside tags, white space control applied
  kPrintBegin,      // {{
  kPrintEnd,        // }}
  kStatementBegin,  // {%
  kStatementEnd,    // %}
  kName,
  kString,  // escapes decoded
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 0;

  [[nodiscard]] bool Is(std::string_view symbol) const {
    return kind == TokenKind::kOperator && text == symbol;
  }
  [[nodiscard]] bool IsName(std::string_view name) const {
    return kind == TokenKind::kName && text == name;
  }
};

// Splits a template into text, tags and their tokens, under the settings of Hugging Face:
// trim_blocks and lstrip_blocks are on. A line end after a statement or a comment is dropped, and
// so is white space between the start of a line and a statement or comment. One line end at the
// template's end is dropped. `source` is valid UTF-8. Throws SyntaxFailure.
std::vector<Token> Tokenize(std::string_view source);

// The tokens, which the parsers of statements and of expressions take, and the depth of nesting.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  // The token `count` positions after the current one; the template's end if there are fewer.
  [[nodiscard]] const Token& ahead(std::size_t count) const;
  Token Take();
  bool TakeIf(std::string_view symbol);
  bool TakeIfName(std::string_view name);
  void Expect(std::string_view symbol);
  std::string ExpectName();

  [[noreturn]] void Refuse(const std::string& what) const { Refuse(current().line, what); }
  [[noreturn]] static void Refuse(int line, const std::string& what);
  // Refuses the current token, which was not expected.
  [[noreturn]] void RefuseToken(std::string_view expected) const;

  // One level of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(TokenReader& reader);
    ~Level() { --reader_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenReader& reader_;
  };

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& reader) : reader_(reader) {}

  // A conditional, or several between commas, which make a tuple.
  ExpressionPtr ParseTuple();
  ExpressionPtr ParseConditional();
  // An expression without a conditional.
  ExpressionPtr ParseOr();
  // The value that a for loop visits: one or several without conditionals.
  ExpressionPtr ParseVisited();
  // name(arguments)|name...: filters without a value, for blocks.
  ExpressionPtr ParseFilterChain();

  // Functions that were called by name, and where, for a check against all that is defined.
  struct NamedCall {
    std::string name;
    int line;
  };
  [[nodiscard]] const std::vector<NamedCall>& named_calls() const { return named_calls_; }

 private:
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseNameOrConstant();
  ExpressionPtr ParseNumber();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr expression);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  ExpressionPtr ParseFilters(ExpressionPtr expression);
  ExpressionPtr ParseFilter(ExpressionPtr subject);
  ExpressionPtr ParseTest(ExpressionPtr subject);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  void ParseArguments(Expression& call);
  void CheckBuiltin(const Expression& use) const;
  void CheckNamesBuiltin(const Expression& use) const;
  ExpressionPtr Make(ExpressionKind kind) const;

  TokenReader& reader_;
  std::vector<NamedCall> named_calls_;
};

}  // namespace twin::text::jinja
