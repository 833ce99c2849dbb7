// Makes untrusted text safe to print in one-line messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twin {

// Length limit for whole messages and arguments. Single words may be cut shorter.
inline constexpr std::size_t kMessageBytesMax = 200;

// The first `length_max` bytes of `text`, with bytes outside printable ASCII as \xNN, and "..."
// appended if the text is longer.
std::string Printable(std::string_view text, std::size_t length_max = 40);

}  // namespace twin
