// Numbers as text, the same in every locale.
#pragma once

#include <cstdint>
#include <string>

namespace twin {

// The shortest decimal that reads back as the same double. REQUIRES: `value` is finite.
std::string ShortestText(double value);

// `digits` significant digits without trailing zeros ("0.05", "1234.5", "1.2e+09").
std::string RoundedText(double value, int digits);

// Appends `nanoseconds` in units of 10^`digits` ns, exactly, without trailing zeros: (1500000, 6)
// is "1.5". REQUIRES: 0 <= digits <= 18.
void AppendDecimal(std::string& out, std::int64_t nanoseconds, int digits);

}  // namespace twin
