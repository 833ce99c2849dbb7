// Capitals and small letters of ASCII, independent of the locale, and comparisons that ignore them.
#pragma once

#include <algorithm>
#include <string_view>

namespace twin {

constexpr char LowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, LowerCase, LowerCase);
}

// Takes `begin` off `whole`, where both may have other capitals, dashes, underscores and blanks;
// false if `whole` does not begin so.
constexpr bool TakeIgnoringSeparators(std::string_view& whole, std::string_view begin) {
  const auto skip = [](std::string_view& text) {
    constexpr std::string_view kSeparators = "-_ ";
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
  };
  for (skip(begin); !begin.empty(); skip(begin)) {
    skip(whole);
    if (whole.empty() || LowerCase(whole[0]) != LowerCase(begin[0])) return false;
    whole.remove_prefix(1);
    begin.remove_prefix(1);
  }
  return true;
}

// Compares names: "RTX 4090" equals "rtx-4090", "Llama2_70b" equals "llama-2-70b".
constexpr bool EqualsIgnoringSeparators(std::string_view a, std::string_view b) {
  return TakeIgnoringSeparators(a, b) && a.find_first_not_of("-_ ") == std::string_view::npos;
}

// Whether a name goes on behind another one: "llama-3-8b" behind "llama3", but not "llama-33b".
constexpr bool GoesOnBehind(std::string_view whole, std::string_view begin) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (begin.empty() || !TakeIgnoringSeparators(whole, begin)) return false;
  return whole.empty() || !is_digit(begin.back()) || !is_digit(whole[0]);
}

}  // namespace twin
