// Hexadecimal text of 64-bit words, such as digests and hashes.
#pragma once

#include <cstdint>
#include <string>

namespace twin {

// 16 lower-case hexadecimal digits, the most significant first.
inline std::string HexText(std::uint64_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, word >>= 4) {
    *digit = kDigits[word & 15];
  }
  return text;
}

}  // namespace twin
