// Stable 64-bit hashes, equal in every run, on every machine, with every compiler, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twin {

// The mixing step of wyhash-like hashes: multiplies to 128 bits and XORs the two halves.
constexpr std::uint64_t MixWords(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9E3779B97F4A7C15ull) * (b ^ 0xD1B54A32D192ED03ull);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The FNV-1a hash. For names (random streams, config text), not for bulk data.
constexpr std::uint64_t HashText(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  }
  return hash;
}

// A hash or digest as 16 lower-case hexadecimal digits, the most significant first.
inline std::string HexText(std::uint64_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, word >>= 4) {
    *digit = kDigits[word & 15];
  }
  return text;
}

}  // namespace twin
