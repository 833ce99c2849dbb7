#include "apps/serve/text/utf8.h"

#include <algorithm>

#include "core/check.h"

namespace twin::text {

namespace {

// The bytes that may follow a first byte (Unicode, table 3-7).
struct Continuation {
  std::size_t bytes;  // 0: no character starts with the byte
  unsigned char lowest = 0x80;
  unsigned char highest = 0xBF;
};

Continuation ContinuationOf(unsigned char first) {
  if (first >= 0xC2 && first <= 0xDF) return {1};
  if (first == 0xE0) return {2, 0xA0};
  if (first == 0xED) return {2, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF) return {2};
  if (first == 0xF0) return {3, 0x90};
  if (first >= 0xF1 && first <= 0xF3) return {3};
  if (first == 0xF4) return {3, 0x80, 0x8F};
  return {0};
}

}  // namespace

std::size_t ValidUtf8Bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const Continuation rest = ContinuationOf(first);
    if (rest.bytes == 0 || text.size() - at <= rest.bytes) return at;
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if (second < rest.lowest || second > rest.highest) return at;
    for (std::size_t k = 2; k <= rest.bytes; ++k) {
      if (!IsContinuation(text[at + k])) return at;
    }
    at += rest.bytes + 1;
  }
  return at;
}

std::size_t CharacterBytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

CodePoint CodePointAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t k) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + k]));
  };
  const std::size_t bytes = CharacterBytes(text[at]);
  CHECK(bytes <= text.size() - at);
  if (bytes == 1) return {byte(0), 1};
  char32_t value = byte(0) & (0x7Fu >> bytes);
  for (std::size_t k = 1; k < bytes; ++k) value = (value << 6) | (byte(k) & 0x3F);
  return {value, bytes};
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !IsContinuation(byte); }));
}

std::size_t BeginOfLast(std::string_view text, std::size_t characters) {
  std::size_t at = text.size();
  for (; characters > 0 && at > 0; --characters) {
    do --at;
    while (at > 0 && IsContinuation(text[at]));
  }
  return at;
}

void AppendUtf8(char32_t value, std::string& text) {
  const auto append = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) {
    append(value);
    return;
  }
  if (value < 0x800) {
    append(0xC0 | (value >> 6));
  } else if (value < 0x10000) {
    append(0xE0 | (value >> 12));
    append(0x80 | ((value >> 6) & 0x3F));
  } else {
    append(0xF0 | (value >> 18));
    append(0x80 | ((value >> 12) & 0x3F));
    append(0x80 | ((value >> 6) & 0x3F));
  }
  append(0x80 | (value & 0x3F));
}

void LossyUtf8Decoder::Start(unsigned char byte, std::string& text) {
  if (byte < 0x80) {
    text += static_cast<char>(byte);
    return;
  }
  const Continuation rest = ContinuationOf(byte);
  if (rest.bytes == 0) {
    text += kReplacementCharacter;
    return;
  }
  held_.assign(1, static_cast<char>(byte));
  needed_ = rest.bytes;
  lowest_ = rest.lowest;
  highest_ = rest.highest;
}

void LossyUtf8Decoder::Push(std::string_view bytes, std::string& text) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (held_.empty()) {
      Start(byte, text);
    } else if (byte < lowest_ || byte > highest_) {
      Finish(text);
      Start(byte, text);
    } else {
      held_ += c;
      lowest_ = 0x80;
      highest_ = 0xBF;
      if (--needed_ == 0) {
        text += held_;
        held_.clear();
      }
    }
  }
}

void LossyUtf8Decoder::Finish(std::string& text) {
  if (held_.empty()) return;
  text += kReplacementCharacter;
  held_.clear();
}

}  // namespace twin::text
