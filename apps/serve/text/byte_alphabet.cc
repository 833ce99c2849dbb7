#include "apps/serve/text/byte_alphabet.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "apps/serve/text/utf8.h"

namespace twin::text {

namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr std::size_t kMoved = 68;

struct ByteAlphabet {
  std::array<std::string, 256> spellings;
  std::array<std::int16_t, kFirstMoved + kMoved> bytes{};  // by character; -1 for none
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet = [] {
    ByteAlphabet result;
    result.bytes.fill(-1);
    char32_t moved = kFirstMoved;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t character = printable ? static_cast<char32_t>(byte) : moved++;
      AppendUtf8(character, result.spellings[byte]);
      result.bytes[character] = static_cast<std::int16_t>(byte);
    }
    return result;
  }();
  return alphabet;
}

}  // namespace

std::string_view SpellingOfByte(unsigned char byte) { return Alphabet().spellings[byte]; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const CodePoint character = CodePointAt(spelling, at);
    if (character.value >= kFirstMoved + kMoved) return std::nullopt;
    const std::int16_t byte = Alphabet().bytes[character.value];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += character.bytes;
  }
  return bytes;
}

std::optional<unsigned char> FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* end = token.data() + 5;
  const auto [parsed, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return byte;
}

std::string FallbackToken(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace twin::text
