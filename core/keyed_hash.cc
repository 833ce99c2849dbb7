#include "core/keyed_hash.h"

#include <bit>
#include <cstddef>

namespace twin {
namespace {

// The state of SipHash, which takes one word after the other.
class SipState {
 public:
  explicit SipState(const HashKey& key)
      : v0_(key.low ^ 0x736F6D6570736575ull),
        v1_(key.high ^ 0x646F72616E646F6Dull),
        v2_(key.low ^ 0x6C7967656E657261ull),
        v3_(key.high ^ 0x7465646279746573ull) {}

  void Take(std::uint64_t word) {
    v3_ ^= word;
    Rounds(2);
    v0_ ^= word;
  }
  std::uint64_t Finish() {
    v2_ ^= 0xFF;
    Rounds(4);
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void Rounds(int count) {
    for (; count > 0; --count) {
      v0_ += v1_;
      v2_ += v3_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v1_;
      v0_ += v3_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ = std::rotl(v2_, 32);
    }
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
};

// Up to eight bytes as a word, the lowest first.
std::uint64_t WordOf(std::string_view bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

constexpr std::size_t kWord = sizeof(std::uint64_t);

}  // namespace

std::uint64_t KeyedHash(const HashKey& key, std::string_view bytes) {
  SipState state(key);
  const std::uint64_t size = std::uint64_t{bytes.size()} << 56;
  for (; bytes.size() >= kWord; bytes.remove_prefix(kWord))
    state.Take(WordOf(bytes.substr(0, kWord)));
  state.Take(size | WordOf(bytes));
  return state.Finish();
}

std::uint64_t KeyedHash(const HashKey& key, std::uint64_t word) {
  SipState state(key);
  state.Take(word);
  state.Take(std::uint64_t{kWord} << 56);
  return state.Finish();
}

}  // namespace twin
