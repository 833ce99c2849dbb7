// The alphabet of byte-level vocabularies: each byte is spelled as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace twin::text {

// The character that spells `byte`, in UTF-8: itself for 188 printable bytes, U+0100 and following
// for the other 68, in the order of the bytes.
std::string_view SpellingOfByte(unsigned char byte);

// The bytes that `spelling` spells; nullopt if it has characters outside the alphabet.
// REQUIRES: `spelling` is valid UTF-8.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

// The byte of a token "<0xHH>" of vocabularies with byte fallback, if it is one.
std::optional<unsigned char> FallbackByte(std::string_view token);
// "<0xHH>"
std::string FallbackToken(unsigned char byte);

}  // namespace twin::text
