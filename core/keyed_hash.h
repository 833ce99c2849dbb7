// A hash that tells nothing of its key or its input, for draws that nobody may foresee.
#pragma once

#include <cstdint>
#include <string_view>

namespace twin {

struct HashKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool operator==(const HashKey&) const = default;
};

// SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) of the bytes.
std::uint64_t KeyedHash(const HashKey& key, std::string_view bytes);
// Hashes the eight bytes of a word, the lowest first.
std::uint64_t KeyedHash(const HashKey& key, std::uint64_t word);

}  // namespace twin
