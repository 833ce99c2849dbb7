#include "apps/serve/text/template/string_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/serve/text/utf8.h"

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

// \xHH, \uHHHH, \UHHHHHHHH; `rest` stands behind the letter.
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

}  // namespace

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

}  // namespace twin::text::jinja
