// Tokens to a tree. Whatever is outside the supported subset of Jinja is refused here.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/text/template/lexer.h"
#include "apps/serve/text/template/tree.h"

namespace twin::text::jinja {

// What the parsers of statements and of expressions share: the tokens and how deep they are.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  // Up to the token that ends the template.
  [[nodiscard]] const Token& ahead(std::size_t count) const;
  Token Take();
  bool TakeIf(std::string_view symbol);
  bool TakeIfName(std::string_view name);
  void Expect(std::string_view symbol);
  std::string ExpectName();

  [[noreturn]] void Refuse(const std::string& what) const { Refuse(current().line, what); }
  [[noreturn]] static void Refuse(int line, const std::string& what);
  // Says that the current token was not expected.
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
  // Without the conditional: what a for loop visits.
  ExpressionPtr ParseOr();
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

// Throws SyntaxFailure.
Block Parse(std::string_view source);

}  // namespace twin::text::jinja
