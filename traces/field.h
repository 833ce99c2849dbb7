// The values of a trace's fields, out of text. Every refusal names file, line and field.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/time.h"
#include "traces/line_reader.h"

namespace twin {

// The longest prompt or output: the sum of the two still fits into 32 bits.
constexpr std::int32_t kTokensMax = (1 << 30) - 1;

// The latest arrival, some 126 years: sums with other times still fit into 64 bits.
constexpr Duration kArrivalMax{4'000'000'000'000'000'000};

// What a field is and where it stands. Borrows all three.
struct Field {
  const LineReader& lines;
  std::string_view name;
  std::string_view text;
};

// Decimal digits within low..high. Throws InputError, as all below.
std::int64_t ParseInteger(const Field& field, std::int64_t low, std::int64_t high);

// A length: 1..kTokensMax.
std::int32_t ParseTokens(const Field& field);

// 64 unsigned bits in decimal.
std::uint64_t ParseUnsigned(const Field& field);

// A finite number within low..high.
double ParseReal(const Field& field, double low, double high);

// Seconds >= 0 as decimal digits, exact to the nanosecond and rounded below; an exponent is
// accepted at the precision of double.
Duration ParseSeconds(const Field& field);

// "2023-11-16 18:17:03.9799600", a T for the blank and a zone "Z" or "+hh:mm" allowed, as time
// since 1970 in UTC. Years 1970 to 2095.
Duration ParseTimestamp(const Field& field);

}  // namespace twin
