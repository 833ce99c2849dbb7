// Numbers as text, the same in every locale.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace twin {

// The shortest decimal that reads back as the same double. REQUIRES: `value` is finite.
std::string ShortestText(double value);

// `digits` significant digits without trailing zeros ("0.05", "1234.5", "1.2e+09").
std::string RoundedText(double value, int digits);

// As people read it in a table: three significant digits, and all digits before the point ("1321",
// "70.3", "0.05"); "-" for an undefined number.
std::string TableNumber(double value);

// Appends `nanoseconds` in units of 10^`digits` ns, exactly, without trailing zeros: (1500000, 6)
// is "1.5". REQUIRES: 0 <= digits <= 18.
void AppendDecimal(std::string& out, std::int64_t nanoseconds, int digits);

// Assigns the number that the whole text stands for; false if the text is no number, or empty.
template <class T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

template <class T>
std::optional<T> NumberFrom(std::string_view text) {
  T value{};
  return ReadNumber(text, value) ? std::optional(value) : std::nullopt;
}

}  // namespace twin
