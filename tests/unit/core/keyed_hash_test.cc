// SipHash-2-4 against the vectors of its authors.
#include "core/keyed_hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace twin {
namespace {

// The key 00 01 ... 0f and the first `size` bytes of 00 01 02 ..., as in the authors' vectors.
constexpr HashKey kKey{0x0706050403020100ull, 0x0F0E0D0C0B0A0908ull};

std::string Bytes(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(KeyedHashTest, GivesTheAuthorsVectors) {
  EXPECT_EQ(KeyedHash(kKey, Bytes(0)), 0x726FDB47DD0E0E31u);
  EXPECT_EQ(KeyedHash(kKey, Bytes(1)), 0x74F839C593DC67FDu);
  EXPECT_EQ(KeyedHash(kKey, Bytes(8)), 0x93F5F5799A932462u);
  EXPECT_EQ(KeyedHash(kKey, Bytes(15)), 0xA129CA6149BE45E5u);
}

TEST(KeyedHashTest, AWordIsItsEightBytesTheLowestFirst) {
  EXPECT_EQ(KeyedHash(kKey, std::uint64_t{0x0706050403020100ull}), KeyedHash(kKey, Bytes(8)));
}

TEST(KeyedHashTest, EachHalfOfTheKeyMatters) {
  EXPECT_NE(KeyedHash({1, 0}, "x"), KeyedHash({0, 0}, "x"));
  EXPECT_NE(KeyedHash({0, 1}, "x"), KeyedHash({0, 0}, "x"));
}

}  // namespace
}  // namespace twin
