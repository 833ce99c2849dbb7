// Expressions: operators, primary expressions, and what may follow a value.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/serve/text/template/parser.h"
#include "core/printable.h"

namespace twin::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};

bool EndsTuple(const Token& token) {
  return token.kind == TokenKind::kPrintEnd || token.kind == TokenKind::kStatementEnd ||
         token.Is(")");
}

constexpr std::size_t kPostfixesMost = kNestingMost;

bool StartsTestArgument(const Token& token) {
  switch (token.kind) {
    case TokenKind::kName:
      return token.text != "else" && token.text != "or" && token.text != "and";
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    default:
      return token.Is("[") || token.Is("{");
  }
}

std::string Outside(std::string_view what, std::string_view name) {
  return fmt::format("{} '{}' is outside the supported subset of Jinja", what, Printable(name));
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

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr expression) {
  for (std::size_t count = 0;; ++count) {
    if (count == kPostfixesMost) reader_.Refuse("too many attributes, items and calls in a row");
    if (reader_.current().Is(".")) {
      auto attribute = Make(ExpressionKind::kAttribute);
      reader_.Take();
      if (reader_.current().kind == TokenKind::kInteger) {
        attribute->kind = ExpressionKind::kItem;
        attribute->children.push_back(std::move(expression));
        attribute->children.push_back(ParseNumber());
      } else {
        attribute->name = reader_.ExpectName();
        attribute->children.push_back(std::move(expression));
      }
      expression = std::move(attribute);
    } else if (reader_.current().Is("[")) {
      expression = ParseSubscript(std::move(expression));
    } else if (reader_.current().Is("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  auto item = Make(ExpressionKind::kItem);
  item->children.push_back(std::move(object));
  reader_.Expect("[");
  std::vector<ExpressionPtr> parts(1);
  bool is_slice = false;
  while (!reader_.current().Is("]")) {
    if (reader_.TakeIf(":")) {
      is_slice = true;
      if (parts.size() == 3) reader_.RefuseToken("']'");
      parts.emplace_back();
      continue;
    }
    if (parts.back() != nullptr) reader_.RefuseToken("']'");
    parts.back() = ParseConditional();
  }
  if (!is_slice && parts.front() == nullptr) reader_.RefuseToken("an index");
  reader_.Expect("]");
  if (is_slice) {
    item->kind = ExpressionKind::kSlice;
    parts.resize(3);
  }
  for (auto& part : parts) item->children.push_back(std::move(part));
  return item;
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  auto call = Make(ExpressionKind::kCall);
  const Expression& called = *callee;
  if (called.kind == ExpressionKind::kName) {
    named_calls_.push_back({called.name, called.line});
  } else if (called.kind != ExpressionKind::kAttribute) {
    reader_.Refuse("only names and methods can be called");
  } else if (!IsKnownMethod(called.name)) {
    reader_.Refuse(Outside("method", called.name));
  }
  call->children.push_back(std::move(callee));
  ParseArguments(*call);
  return call;
}

void ExpressionParser::ParseArguments(Expression& call) {
  reader_.Expect("(");
  bool first = true;
  while (!reader_.TakeIf(")")) {
    if (!first) {
      reader_.Expect(",");
      if (reader_.TakeIf(")")) break;
    }
    first = false;
    if (reader_.current().Is("*") || reader_.current().Is("**")) {
      reader_.Refuse("arguments with * or ** are outside the supported subset of Jinja");
    }
    const bool is_named = reader_.current().kind == TokenKind::kName && reader_.ahead(1).Is("=");
    if (is_named) {
      std::string name = reader_.Take().text;
      reader_.Take();
      call.keywords.emplace_back(std::move(name), ParseConditional());
    } else if (!call.keywords.empty()) {
      reader_.Refuse("an argument without a name follows one with a name");
    } else {
      call.children.push_back(ParseConditional());
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr expression) {
  for (std::size_t count = 0;; ++count) {
    if (count == kPostfixesMost) reader_.Refuse("too many filters and tests in a row");
    if (reader_.TakeIf("|")) {
      expression = ParseFilter(std::move(expression));
    } else if (reader_.current().IsName("is")) {
      expression = ParseTest(std::move(expression));
    } else if (reader_.current().Is("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilterChain() {
  ExpressionPtr chain = ParseFilter(nullptr);
  while (reader_.TakeIf("|")) chain = ParseFilter(std::move(chain));
  return chain;
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr subject) {
  auto filter = Make(ExpressionKind::kFilter);
  const std::string name = reader_.ExpectName();
  filter->builtin = FindFilter(name);
  if (filter->builtin == nullptr) reader_.Refuse(Outside("filter", name));
  filter->children.push_back(std::move(subject));
  if (reader_.current().Is("(")) ParseArguments(*filter);
  CheckBuiltin(*filter);
  return filter;
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr subject) {
  auto test = Make(ExpressionKind::kTest);
  reader_.Take();
  const bool negated = reader_.TakeIfName("not");
  const std::string name = reader_.ExpectName();
  test->builtin = FindTest(name);
  if (test->builtin == nullptr) reader_.Refuse(Outside("test", name));
  test->children.push_back(std::move(subject));
  if (reader_.current().Is("(")) {
    ParseArguments(*test);
  } else if (StartsTestArgument(reader_.current())) {
    if (reader_.current().IsName("is")) reader_.Refuse("tests cannot be chained with 'is'");
    // jinja2, too, takes the name after a test as its argument: the `if` of `x is defined if ...`.
    test->children.push_back(ParsePostfix(ParsePrimary()));
  }
  CheckBuiltin(*test);
  if (!negated) return test;
  auto negation = Make(ExpressionKind::kNot);
  negation->children.push_back(std::move(test));
  return negation;
}

void ExpressionParser::CheckBuiltin(const Expression& use) const {
  std::vector<std::string_view> names;
  for (const auto& [name, unused] : use.keywords) names.emplace_back(name);
  const std::string problem = CheckArguments(*use.builtin, use.children.size() - 1, names);
  if (!problem.empty()) TokenReader::Refuse(use.line, problem);
  if (use.builtin->variadic) CheckNamesBuiltin(use);
}

// map, select and their like apply a filter or a test that an argument names. The name must be a
// constant, so that the parser can check it.
void ExpressionParser::CheckNamesBuiltin(const Expression& use) const {
  const std::string_view filter = use.builtin->name;
  const auto refuse = [&](const std::string& what) {
    TokenReader::Refuse(use.line, fmt::format("filter '{}': {}", filter, what));
  };
  const bool is_map = filter == "map";
  for (const auto& [name, unused] : use.keywords) {
    if (!is_map || (name != "attribute" && name != "default")) {
      refuse(fmt::format("there is no argument '{}'", Printable(name)));
    }
  }
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  const std::size_t at = by_attribute ? 2 : 1;
  if (by_attribute && use.children.size() < 2) refuse("the attribute's name is missing");
  if (is_map && !use.keywords.empty()) {
    const bool named = use.keywords.front().first == "attribute" || use.keywords.size() == 2;
    if (!named || use.children.size() > 1) refuse("give attribute=, or a filter's name");
    return;
  }
  if (use.children.size() <= at) {
    if (is_map) refuse("give attribute=, or a filter's name");
    return;
  }
  const Expression& named = *use.children[at];
  if (named.kind != ExpressionKind::kConstant || !named.constant.is_text()) {
    refuse("the name of a filter or test must be written as a text");
  }
  const std::string& name = named.constant.text();
  const Builtin* const builtin = is_map ? FindFilter(name) : FindTest(name);
  if (builtin == nullptr) refuse(Outside(is_map ? "filter" : "test", name));
  if (builtin->variadic) refuse(fmt::format("'{}' cannot be applied to elements", name));
  const std::string problem = CheckArguments(*builtin, use.children.size() - at - 1, {});
  if (!problem.empty()) refuse(problem);
}

}  // namespace twin::text::jinja
