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

// Compares names: "RTX 4090" equals "rtx-4090", "Llama2_70b" equals "llama-2-70b".
constexpr bool EqualsIgnoringSeparators(std::string_view a, std::string_view b) {
  const auto skip = [](std::string_view& text) {
    constexpr std::string_view kSeparators = "-_ ";
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
  };
  for (skip(a), skip(b); !a.empty() && !b.empty(); skip(a), skip(b)) {
    if (LowerCase(a[0]) != LowerCase(b[0])) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() && b.empty();
}

}  // namespace twin
