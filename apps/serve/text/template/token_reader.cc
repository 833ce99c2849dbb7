#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/template/parser.h"
#include "core/printable.h"

namespace twin::text::jinja {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the template's end";
    case TokenKind::kStatementEnd:
      return "the tag's end %}";
    case TokenKind::kPrintEnd:
      return "the tag's end }}";
    default:
      return fmt::format("'{}'", Printable(token.text));
  }
}

}  // namespace

const Token& TokenReader::ahead(std::size_t count) const {
  return tokens_[std::min(at_ + count, tokens_.size() - 1)];
}

Token TokenReader::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenReader::TakeIf(std::string_view symbol) {
  if (!current().Is(symbol)) return false;
  Take();
  return true;
}

bool TokenReader::TakeIfName(std::string_view name) {
  if (!current().IsName(name)) return false;
  Take();
  return true;
}

void TokenReader::Expect(std::string_view symbol) {
  if (!TakeIf(symbol)) RefuseToken(fmt::format("'{}'", symbol));
}

std::string TokenReader::ExpectName() {
  if (current().kind != TokenKind::kName) RefuseToken("a name");
  return Take().text;
}

void TokenReader::Refuse(int line, const std::string& what) { throw SyntaxFailure{line, what}; }

void TokenReader::RefuseToken(std::string_view expected) const {
  Refuse(fmt::format("expected {}, found {}", expected, Describe(current())));
}

TokenReader::Level::Level(TokenReader& reader) : reader_(reader) {
  if (reader_.depth_ == kNestingMost) {
    reader_.Refuse(fmt::format("the template nests deeper than {} levels", kNestingMost));
  }
  ++reader_.depth_;
}

}  // namespace twin::text::jinja
