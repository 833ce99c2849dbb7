// Writing JSON piece by piece, for answers that are sent many times a second.
#pragma once

#include <string>
#include <string_view>

namespace twin::serve {

// Appends `text` as a JSON string with its quotes. Characters outside ASCII stay as they are; each
// byte that belongs to no valid UTF-8 character becomes U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);
std::string JsonString(std::string_view text);

// The number of bytes of the UTF-8 character at the start of `text`; 0 if there is none (an empty
// text, a wrong or incomplete sequence, a surrogate, an overlong form).
std::size_t CharacterBytes(std::string_view text);

// Characters of a text; a byte that belongs to no character counts as one.
std::size_t CharacterCount(std::string_view text);

// At most `bytes_max` bytes of `text`, cut between characters; then "..." if anything was cut.
std::string Shortened(std::string_view text, std::size_t bytes_max);

}  // namespace twin::serve
