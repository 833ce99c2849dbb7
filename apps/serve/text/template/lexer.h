// Splits a template into text, tags and their tokens, under the settings of Hugging Face.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

// A template that cannot be loaded. Template's constructor turns it into an InputError.
struct SyntaxFailure {
  int line = 0;
  std::string what;
};

// trim_blocks and lstrip_blocks are on: a line end after a statement or a comment is dropped, and
// so is white space between the start of a line and a statement or comment. One line end at the
// template's end is dropped. `source` is valid UTF-8. Throws SyntaxFailure.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace twin::text::jinja
