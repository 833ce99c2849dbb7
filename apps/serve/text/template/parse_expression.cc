// Operators and primary expressions; what follows a value is in parse_postfix.cc.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/serve/text/template/parser.h"

namespace twin::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};

bool EndsTuple(const Token& token) {
  return token.kind == TokenKind::kPrintEnd || token.kind == TokenKind::kStatementEnd ||
         token.Is(")");
}

}  // namespace

ExpressionPtr ExpressionParser::Make(ExpressionKind kind) const {
  return std::make_unique<Expression>(Expression{.kind = kind, .line = reader_.current().line});
}

ExpressionPtr ExpressionParser::ParseTuple() {
  auto tuple = Make(ExpressionKind::kTuple);
  ExpressionPtr first = ParseConditional();
  if (!reader_.current().Is(",")) return first;
  tuple->children.push_back(std::move(first));
  while (reader_.TakeIf(",")) {
    if (EndsTuple(reader_.current())) break;
    tuple->children.push_back(ParseConditional());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::ParseVisited() {
  auto tuple = Make(ExpressionKind::kTuple);
  ExpressionPtr first = ParseOr();
  if (!reader_.current().Is(",")) return first;
  tuple->children.push_back(std::move(first));
  while (reader_.TakeIf(",")) tuple->children.push_back(ParseOr());
  return tuple;
}

ExpressionPtr ExpressionParser::ParseConditional() {
  const TokenReader::Level level(reader_);
  ExpressionPtr value = ParseOr();
  while (reader_.current().IsName("if")) {
    auto conditional = Make(ExpressionKind::kConditional);
    reader_.Take();
    ExpressionPtr condition = ParseOr();
    ExpressionPtr otherwise = reader_.TakeIfName("else") ? ParseConditional() : nullptr;
    conditional->children.push_back(std::move(value));
    conditional->children.push_back(std::move(condition));
    conditional->children.push_back(std::move(otherwise));
    value = std::move(conditional);
    if (reader_.current().IsName("if")) reader_.Refuse("put parentheses around a condition");
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseOr() {
  auto either = Make(ExpressionKind::kOr);
  either->children.push_back(ParseAnd());
  while (reader_.TakeIfName("or")) either->children.push_back(ParseAnd());
  return either->children.size() > 1 ? std::move(either) : std::move(either->children.front());
}

ExpressionPtr ExpressionParser::ParseAnd() {
  auto both = Make(ExpressionKind::kAnd);
  both->children.push_back(ParseNot());
  while (reader_.TakeIfName("and")) both->children.push_back(ParseNot());
  return both->children.size() > 1 ? std::move(both) : std::move(both->children.front());
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!reader_.current().IsName("not")) return ParseCompare();
  const TokenReader::Level level(reader_);
  auto negation = Make(ExpressionKind::kNot);
  reader_.Take();
  negation->children.push_back(ParseNot());
  return negation;
}

ExpressionPtr ExpressionParser::ParseCompare() {
  auto comparison = Make(ExpressionKind::kCompare);
  comparison->children.push_back(ParseSum());
  for (;;) {
    const Token& token = reader_.current();
    const bool is_symbol =
        token.kind == TokenKind::kOperator &&
        std::find(kComparisons.begin(), kComparisons.end(), token.text) != kComparisons.end();
    if (is_symbol || token.IsName("in")) {
      comparison->operators.push_back(reader_.Take().text);
    } else if (token.IsName("not") && reader_.ahead(1).IsName("in")) {
      reader_.Take();
      reader_.Take();
      comparison->operators.emplace_back("not in");
    } else {
      break;
    }
    comparison->children.push_back(ParseSum());
  }
  if (comparison->operators.empty()) return std::move(comparison->children.front());
  return comparison;
}

ExpressionPtr ExpressionParser::ParseSum() {
  auto sum = Make(ExpressionKind::kArithmetic);
  sum->children.push_back(ParseConcat());
  while (reader_.current().Is("+") || reader_.current().Is("-")) {
    sum->operators.push_back(reader_.Take().text);
    sum->children.push_back(ParseConcat());
  }
  return sum->operators.empty() ? std::move(sum->children.front()) : std::move(sum);
}

ExpressionPtr ExpressionParser::ParseConcat() {
  auto concat = Make(ExpressionKind::kConcat);
  concat->children.push_back(ParseProduct());
  while (reader_.TakeIf("~")) concat->children.push_back(ParseProduct());
  return concat->children.size() > 1 ? std::move(concat) : std::move(concat->children.front());
}

ExpressionPtr ExpressionParser::ParseProduct() {
  auto product = Make(ExpressionKind::kArithmetic);
  product->children.push_back(ParseUnary(true));
  for (;;) {
    const Token& token = reader_.current();
    if (token.Is("/") || token.Is("//") || token.Is("**")) {
      reader_.Refuse(
          fmt::format("operator '{}' is outside the supported subset of Jinja; allowed "
                      "are + - * % ~",
                      token.text));
    }
    if (!token.Is("*") && !token.Is("%")) break;
    if (token.Is("%") && product->children.back()->kind == ExpressionKind::kConstant &&
        product->children.back()->constant.is_text()) {
      reader_.Refuse("'%' on a text is outside the supported subset of Jinja; use format()");
    }
    product->operators.push_back(reader_.Take().text);
    product->children.push_back(ParseUnary(true));
  }
  return product->operators.empty() ? std::move(product->children.front()) : std::move(product);
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  const TokenReader::Level level(reader_);
  ExpressionPtr expression;
  if (reader_.current().Is("-") || reader_.current().Is("+")) {
    expression =
        Make(reader_.current().Is("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    reader_.Take();
    expression->children.push_back(ParseUnary(false));
  } else {
    expression = ParsePrimary();
  }
  expression = ParsePostfix(std::move(expression));
  return with_filters ? ParseFilters(std::move(expression)) : std::move(expression);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = reader_.current();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseNameOrConstant();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    case TokenKind::kString: {
      auto text = Make(ExpressionKind::kConstant);
      std::string joined;
      while (reader_.current().kind == TokenKind::kString) joined += reader_.Take().text;
      text->constant = Value::Text(std::move(joined));
      return text;
    }
    default:
      break;
  }
  if (token.Is("(")) return ParseParentheses();
  if (token.Is("[")) return ParseList();
  if (token.Is("{")) return ParseDict();
  reader_.RefuseToken("an expression");
}

ExpressionPtr ExpressionParser::ParseNameOrConstant() {
  auto expression = Make(ExpressionKind::kConstant);
  const std::string name = reader_.Take().text;
  if (name == "true" || name == "True") {
    expression->constant = Value::Bool(true);
  } else if (name == "false" || name == "False") {
    expression->constant = Value::Bool(false);
  } else if (name == "none" || name == "None") {
    expression->constant = Value::None();
  } else {
    expression->kind = ExpressionKind::kName;
    expression->name = name;
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseNumber() {
  auto expression = Make(ExpressionKind::kConstant);
  const Token token = reader_.Take();
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    double number = 0;
    std::from_chars(token.text.data(), end, number);
    expression->constant = Value::Float(number);
    return expression;
  }
  std::int64_t number = 0;
  if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
    TokenReader::Refuse(token.line, "an integer is beyond 64 bits");
  }
  expression->constant = Value::Integer(number);
  return expression;
}

ExpressionPtr ExpressionParser::ParseParentheses() {
  auto empty = Make(ExpressionKind::kTuple);
  reader_.Expect("(");
  if (reader_.TakeIf(")")) return empty;
  ExpressionPtr inner = ParseTuple();
  reader_.Expect(")");
  return inner;
}

ExpressionPtr ExpressionParser::ParseList() {
  auto list = Make(ExpressionKind::kList);
  reader_.Expect("[");
  while (!reader_.TakeIf("]")) {
    if (!list->children.empty()) {
      reader_.Expect(",");
      if (reader_.TakeIf("]")) break;
    }
    list->children.push_back(ParseConditional());
  }
  return list;
}

ExpressionPtr ExpressionParser::ParseDict() {
  auto dict = Make(ExpressionKind::kDict);
  reader_.Expect("{");
  while (!reader_.TakeIf("}")) {
    if (!dict->children.empty()) {
      reader_.Expect(",");
      if (reader_.TakeIf("}")) break;
    }
    dict->children.push_back(ParseConditional());
    reader_.Expect(":");
    dict->children.push_back(ParseConditional());
  }
  return dict;
}

}  // namespace twin::text::jinja
