// Capitals and small letters of ASCII, independent of the locale.
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

}  // namespace twin
