#include "core/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/check.h"

namespace twin {

std::string ShortestText(double value) {
  CHECK(std::isfinite(value));
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end.ptr};
}

std::string RoundedText(double value, int digits) {
  char buffer[48];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
  CHECK(end.ec == std::errc{});
  return {buffer, end.ptr};
}

std::string TableNumber(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size < 1 && size > 0) return RoundedText(value, 2);
  const int decimals = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : 2;
  std::array<char, 320> text;  // the largest double has 309 digits
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::fixed, decimals);
  CHECK(error == std::errc{});
  return {text.data(), end};
}

void AppendDecimal(std::string& out, std::int64_t nanoseconds, int digits) {
  CHECK(digits >= 0 && digits <= 18);
  // Unsigned, because the smallest int64 has no positive twin.
  std::uint64_t rest = static_cast<std::uint64_t>(nanoseconds);
  if (nanoseconds < 0) rest = 0 - rest;
  char buffer[24];
  char* first = buffer + sizeof buffer;
  bool nonzero = false;
  for (int place = 0; place < digits; ++place, rest /= 10) {
    const char digit = static_cast<char>('0' + rest % 10);
    nonzero |= digit != '0';
    if (nonzero) *--first = digit;
  }
  if (nonzero) *--first = '.';
  do {
    *--first = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (nanoseconds < 0) *--first = '-';
  out.append(first, buffer + sizeof buffer);
}

}  // namespace twin
