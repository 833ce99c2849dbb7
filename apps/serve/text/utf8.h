// UTF-8: checks it, walks it, and decodes damaged text with U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twin::text {

// U+FFFD, which replaces bytes that form no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

// The number of leading bytes that are complete, valid characters: text.size() if all are.
std::size_t ValidUtf8Bytes(std::string_view text);

// The character that starts at byte `at`. REQUIRES: `text` is valid; `at` starts a character.
CodePoint CodePointAt(std::string_view text, std::size_t at);

// Bytes of the character whose first byte is `first`. REQUIRES: `first` starts a valid character.
std::size_t CharacterBytes(char first);

// True for bytes that continue a character.
constexpr bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Number of characters. REQUIRES: `text` is valid.
std::size_t CountCharacters(std::string_view text);

// The byte at which the last `characters` characters of `text` begin; 0 if it has no more.
// REQUIRES: `text` is valid.
std::size_t BeginOfLast(std::string_view text, std::size_t characters);

void AppendUtf8(char32_t value, std::string& text);

// Decodes a stream of bytes: each maximal part of an invalid sequence becomes one U+FFFD (Unicode,
// section 3.9, "U+FFFD Substitution of Maximal Subparts"). Holds back at most 3 bytes.
class LossyUtf8Decoder {
 public:
  // Appends to `text` the characters that are certain after `bytes`.
  void Push(std::string_view bytes, std::string& text);

  // Appends one U+FFFD if the stream ends within a character, and starts anew.
  void Finish(std::string& text);

  [[nodiscard]] bool holds_bytes() const { return !held_.empty(); }

 private:
  void Start(unsigned char byte, std::string& text);

  std::string held_;
  std::size_t needed_ = 0;  // bytes that complete the held character
  // Range of the next byte.
  unsigned char lowest_ = 0x80;
  unsigned char highest_ = 0xBF;
};

}  // namespace twin::text
