// Foreign text in messages of one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twin {

// For a message or an argument; a word may have fewer.
inline constexpr std::size_t kMessageBytesMax = 200;

// The first `length_max` bytes of `text`, those outside of printable ASCII as \xNN; "..." behind
// them if that is not all.
std::string Printable(std::string_view text, std::size_t length_max = 40);

}  // namespace twin
