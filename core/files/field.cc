#include "core/files/field.h"

#include <chrono>
#include <cmath>
#include <string>
#include <type_traits>

#include "core/number_text.h"

namespace twin {
namespace {

// An integer, also as data frames write it: 10.0, 1e+05.
template <class T>
bool ParseWholeNumber(std::string_view text, T& value) {
  if (ReadNumber(text, value)) return true;
  const std::size_t point = text.find('.');
  if (point > 0 && point + 1 < text.size() &&
      text.find_first_not_of('0', point + 1) == std::string_view::npos) {
    return ReadNumber(text.substr(0, point), value);
  }
  constexpr double kExact =
      9007199254740992;  // 2^53: above it, a double may stand for another integer
  double real = 0;
  if (text.find_first_of("eE") == std::string_view::npos || !ReadNumber(text, real) ||
      !(std::abs(real) <= kExact) || real != std::floor(real) ||
      (real < 0 && std::is_unsigned_v<T>)) {
    return false;
  }
  value = static_cast<T>(real);
  return true;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes leading digits from `text` and returns them.
std::string_view TakeDigits(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && IsDigit(text[size])) ++size;
  const std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  return digits;
}

bool TakeChar(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Digits after the decimal point as nanoseconds, rounded to nearest.
std::int64_t FractionNanoseconds(std::string_view digits) {
  std::int64_t ns = 0;
  for (std::size_t i = 0; i < 9; ++i) ns = ns * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  if (digits.size() > 9 && digits[9] >= '5') ++ns;
  return ns;
}

// The value of exactly `size` digits; -1 if `text` does not begin with them.
int TakeFixed(std::string_view& text, std::size_t size) {
  int value = 0;
  if (text.size() < size) return -1;
  for (std::size_t i = 0; i < size; ++i) {
    if (!IsDigit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(size);
  return value;
}

// Parses "Z", "+hh:mm", "-hhmm" or nothing; false for anything else.
bool TakeZone(std::string_view& text, std::chrono::minutes& offset) {
  offset = {};
  if (text.empty() || TakeChar(text, "Z")) return text.empty();
  const bool west = text.front() == '-';
  if (!TakeChar(text, "+-")) return false;
  const int hours = TakeFixed(text, 2);
  TakeChar(text, ":");
  const int minutes = TakeFixed(text, 2);
  if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59 || !text.empty()) return false;
  offset = std::chrono::minutes(hours * 60 + minutes) * (west ? -1 : 1);
  return true;
}

}  // namespace

std::int64_t ParseInteger(const Field& field, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  if (!ParseWholeNumber(field.text, value) || value < low || value > high) {
    field.lines.RefuseField(
        field.name, field.text,
        "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

std::uint64_t ParseUnsigned(const Field& field) {
  std::uint64_t value = 0;
  if (!ParseWholeNumber(field.text, value)) {
    field.lines.RefuseField(field.name, field.text, "an integer from 0 to 18446744073709551615");
  }
  return value;
}

double ParseReal(const Field& field, double low, double high) {
  double value = 0;
  if (!ReadNumber(field.text, value) || !(value >= low && value <= high)) {
    field.lines.RefuseField(field.name, field.text,
                            "a number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Duration ParseSeconds(const Field& field) {
  constexpr std::string_view kAllowed = "seconds from 0 to 4000000000";
  std::string_view rest = field.text;
  const std::string_view whole = TakeDigits(rest);
  std::string_view fraction;
  if (TakeChar(rest, ".")) fraction = TakeDigits(rest);
  if (rest.empty() && whole.size() + fraction.size() > 0) {
    std::int64_t seconds = 0;
    if ((!whole.empty() && !ReadNumber(whole, seconds)) || seconds >= 4'000'000'000) {
      field.lines.RefuseField(field.name, field.text, kAllowed);
    }
    return std::chrono::seconds(seconds) + Duration{FractionNanoseconds(fraction)};
  }
  double seconds = 0;
  if (!ReadNumber(field.text, seconds) || !(seconds >= 0 && seconds < 4e9)) {
    field.lines.RefuseField(field.name, field.text, kAllowed);
  }
  return DurationFromSeconds(seconds);
}

Duration ParseTimestamp(const Field& field) {
  using std::chrono::year_month_day;
  std::string_view text = field.text;
  const int year = TakeFixed(text, 4);
  const bool dash1 = TakeChar(text, "-");
  const int month = TakeFixed(text, 2);
  const bool dash2 = TakeChar(text, "-");
  const int day = TakeFixed(text, 2);
  const bool blank = TakeChar(text, " T");
  const int hour = TakeFixed(text, 2);
  const bool colon1 = TakeChar(text, ":");
  const int minute = TakeFixed(text, 2);
  const bool colon2 = TakeChar(text, ":");
  const int second = TakeFixed(text, 2);
  std::string_view fraction;
  const bool point = TakeChar(text, ".");
  if (point) fraction = TakeDigits(text);
  std::chrono::minutes zone{};
  const year_month_day date(std::chrono::year(year),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  const bool separated =
      dash1 && dash2 && blank && colon1 && colon2 && (!point || !fraction.empty());
  if (!separated || year < 1970 || year > 2095 || month < 1 || day < 1 || !date.ok() || hour < 0 ||
      hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 ||
      !TakeZone(text, zone)) {
    field.lines.RefuseField(field.name, field.text,
                            "a time like 2023-11-16 18:17:03.9799600, zone +00:00 or none");
  }
  const Duration result = std::chrono::sys_days(date).time_since_epoch() +
                          std::chrono::hours(hour) + std::chrono::minutes(minute) - zone +
                          std::chrono::seconds(second) + Duration{FractionNanoseconds(fraction)};
  return result;
}

}  // namespace twin
