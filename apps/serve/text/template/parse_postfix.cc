// What follows a value: attributes, items, calls, filters, tests.
#include <fmt/format.h>

#include "apps/serve/text/template/parser.h"
#include "core/printable.h"

namespace twin::text::jinja {
namespace {

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
    // Of `x is defined if ...`, jinja2 takes the name behind the test for its argument too.
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

// map, select and their like name a filter or a test, by a constant, so that it can be checked.
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
