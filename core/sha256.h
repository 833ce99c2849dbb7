// SHA-256 (FIPS 180-4), for records that name a file by its content.
#pragma once

#include <string>
#include <string_view>

namespace twin {

// 64 lower-case hexadecimal digits.
std::string Sha256(std::string_view bytes);

}  // namespace twin
