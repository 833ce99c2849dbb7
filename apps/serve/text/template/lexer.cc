// The lexer: Tokenize().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "apps/serve/text/template/parser.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/utf8.h"
#include "core/printable.h"

namespace twin::text::jinja {
namespace {

constexpr char32_t kCodePointMost = 0x10FFFF;

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Takes up to `digits_most` digits of `base` from the front of `rest`; returns how many.
std::size_t TakeNumber(std::string_view& rest, std::size_t digits_most, int base, char32_t& value) {
  std::uint32_t number = 0;
  const char* const end = rest.data() + std::min(digits_most, rest.size());
  const auto parsed = std::from_chars(rest.data(), end, number, base);
  const auto taken = static_cast<std::size_t>(parsed.ptr - rest.data());
  rest.remove_prefix(taken);
  value = number;
  return taken;
}

// \xHH, \uHHHH, \UHHHHHHHH. `rest` starts after the letter.
void DecodeHex(std::string_view& rest, char letter, std::string& text, std::string& problem) {
  const std::size_t digits = letter == 'x' ? 2 : (letter == 'u' ? 4 : 8);
  char32_t code_point = 0;
  const std::size_t taken = TakeNumber(rest, digits, 16, code_point);
  if (taken != digits || code_point > kCodePointMost || IsSurrogate(code_point)) {
    problem = fmt::format("escape \\{} needs {} hexadecimal digits of a character", letter, digits);
    return;
  }
  AppendUtf8(code_point, text);
}

char SimpleEscape(char letter) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const std::size_t at = kLetters.find(letter);
  return at == std::string_view::npos ? '\0' : kMeanings[at];
}

// Decodes Python's escapes. An unknown escape stands for itself, with its backslash. On an error
// `problem` says what is wrong, and the result is meaningless.
std::string DecodeStringLiteral(std::string_view rest, std::string& problem) {
  std::string text;
  while (!rest.empty() && problem.empty()) {
    const std::size_t backslash = rest.find('\\');
    text += rest.substr(0, backslash);
    if (backslash == std::string_view::npos) break;
    rest.remove_prefix(backslash + 1);
    const char letter = rest.front();
    if (letter >= '0' && letter <= '7') {
      char32_t code_point = 0;
      TakeNumber(rest, 3, 8, code_point);
      AppendUtf8(code_point, text);
      continue;
    }
    if (letter == 'N') {
      problem = "escape \\N{...} is outside the supported subset of Jinja; write \\uHHHH";
      break;
    }
    if (letter == 'x' || letter == 'u' || letter == 'U') {
      rest.remove_prefix(1);
      DecodeHex(rest, letter, text, problem);
      continue;
    }
    if (letter == '\n') {
      rest.remove_prefix(1);
      continue;
    }
    if (const char meaning = SimpleEscape(letter); meaning != '\0') {
      text += meaning;
      rest.remove_prefix(1);
      continue;
    }
    text += '\\';
  }
  return text;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string WithLineFeeds(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadTextAndTag();
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view Rest() const { return std::string_view(source_).substr(at_); }

  [[noreturn]] void Refuse(std::string what) const { throw SyntaxFailure{line_, std::move(what)}; }

  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Skip(std::size_t bytes) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(bytes), '\n'));
    at_ += bytes;
  }

  void SkipSpace() { Skip(Rest().size() - Strip(Rest(), Sides::kLeft).size()); }

  void ReadTextAndTag() {
    std::size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      Add(TokenKind::kText, std::string(Rest()));
      Skip(Rest().size());
      return;
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    AddTextBefore(tag, type, sign);
    Skip(tag - at_ + 2);
    if (sign == '-' || sign == '+') Skip(1);
    if (type == '#') {
      SkipComment();
      return;
    }
    Add(type == '{' ? TokenKind::kPrintBegin : TokenKind::kStatementBegin, "");
    while (!ReadEnd(type)) ReadToken();
  }

  void AddTextBefore(std::size_t tag, char type, char sign) {
    std::string_view text = Rest().substr(0, tag - at_);
    if (sign == '-') {
      text = Strip(text, Sides::kRight);
    } else if (sign != '+' && type != '{') {
      const std::size_t line_end = text.rfind('\n');
      const std::size_t line = line_end == std::string_view::npos ? 0 : line_end + 1;
      const bool from_line_start = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (from_line_start && Strip(text.substr(line), Sides::kLeft).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
  }

  void SkipComment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Refuse("a comment {# has no end #}");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Skip(end + 2 - at_);
    SkipAfterTag(sign);
  }

  void SkipAfterTag(char sign) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && Rest().starts_with('\n')) {
      Skip(1);
    }
  }

  // Reads the end of a tag, if the next token is one. Within brackets }} ends two dicts.
  bool ReadEnd(char type) {
    SkipSpace();
    if (Rest().empty()) {
      Refuse(type == '{' ? "a tag {{ has no end }}" : "a tag {% has no end %}");
    }
    if (!brackets_.empty()) return false;
    const std::string_view closing = type == '{' ? "}}" : "%}";
    const char first = Rest().front();
    const bool has_sign = first == '-' || (first == '+' && type == '%');
    if (!Rest().substr(has_sign ? 1 : 0).starts_with(closing)) return false;
    Add(type == '{' ? TokenKind::kPrintEnd : TokenKind::kStatementEnd, "");
    Skip(closing.size() + (has_sign ? 1 : 0));
    if (type == '%') {
      SkipAfterTag(has_sign ? first : '\0');
    } else if (has_sign) {
      SkipSpace();
    }
    return true;
  }

  void ReadToken() {
    const char first = Rest().front();
    if (IsDigit(first)) {
      ReadNumber();
    } else if (IsNameStart(first)) {
      std::size_t length = 1;
      while (length < Rest().size() && (IsNameStart(Rest()[length]) || IsDigit(Rest()[length]))) {
        ++length;
      }
      Add(TokenKind::kName, std::string(Rest().substr(0, length)));
      Skip(length);
    } else if (first == '\'' || first == '"') {
      ReadString(first);
    } else {
      ReadOperator();
    }
  }

  void ReadNumber() {
    std::size_t length = 0;
    const auto digits = [&] {
      while (length < Rest().size() && (IsDigit(Rest()[length]) || Rest()[length] == '_')) ++length;
    };
    digits();
    TokenKind kind = TokenKind::kInteger;
    const bool has_fraction = length + 1 < Rest().size() && Rest()[length] == '.' &&
                              IsDigit(Rest()[length + 1]) && (at_ == 0 || source_[at_ - 1] != '.');
    if (has_fraction) {
      kind = TokenKind::kFloat;
      ++length;
      digits();
    }
    const std::string text(Rest().substr(0, length));
    const bool continues = length < Rest().size() && IsNameStart(Rest()[length]);
    const bool leading_zero = kind == TokenKind::kInteger && text.size() > 1 && text[0] == '0';
    if (continues || leading_zero || text.find('_') != std::string::npos) {
      Refuse(fmt::format("number '{}': write decimal digits, with a decimal point at most",
                         Printable(Rest().substr(0, length + (continues ? 1 : 0)))));
    }
    Add(kind, text);
    Skip(length);
  }

  void ReadString(char quote) {
    std::size_t end = 1;
    while (end < Rest().size() && Rest()[end] != quote) end += Rest()[end] == '\\' ? 2U : 1U;
    if (end >= Rest().size()) Refuse("a text in quotes has no end");
    const std::string_view literal = Rest().substr(1, end - 1);
    std::string problem;
    Add(TokenKind::kString, DecodeStringLiteral(literal, problem));
    if (!problem.empty()) Refuse(problem);
    Skip(end + 1);
  }

  void ReadOperator() {
    constexpr std::array<std::string_view, 6> kPairs = {"==", "!=", ">=", "<=", "//", "**"};
    constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    std::string_view found = Rest().substr(0, 2);
    if (std::find(kPairs.begin(), kPairs.end(), found) == kPairs.end()) found = Rest().substr(0, 1);
    if (found.size() == 1 && kSingles.find(found) == std::string_view::npos) {
      Refuse(fmt::format("unexpected '{}'", Printable(Characters(Rest()).front())));
    }
    Balance(found);
    Add(TokenKind::kOperator, std::string(found));
    Skip(found.size());
  }

  void Balance(std::string_view symbol) {
    constexpr std::string_view kOpening = "([{";
    constexpr std::string_view kClosing = ")]}";
    const std::size_t opening = kOpening.find(symbol);
    if (symbol.size() == 1 && opening != std::string_view::npos) brackets_ += kClosing[opening];
    if (symbol.size() != 1 || kClosing.find(symbol) == std::string_view::npos) return;
    if (brackets_.empty() || brackets_.back() != symbol[0]) {
      Refuse(fmt::format("unexpected '{}'", symbol));
    }
    brackets_.pop_back();
  }

  const std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string brackets_;  // closing brackets that are still to come
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Lexer(WithLineFeeds(source)).Run(); }

}  // namespace twin::text::jinja
