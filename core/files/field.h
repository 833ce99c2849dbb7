// Parses the fields of a text file. Every error names file, line and field.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/files/line_reader.h"
#include "core/time.h"

namespace twin {

// A field's text, name and position. Refers to all three without owning them.
struct Field {
  const LineReader& lines;
  std::string_view name;
  std::string_view text;
};

// A decimal integer in low..high, also as programs without integers write it: 16.0, or 1e+05 for
// 100000. This function and all below throw InputError.
std::int64_t ParseInteger(const Field& field, std::int64_t low, std::int64_t high);

// An unsigned 64-bit integer, in the same notations.
std::uint64_t ParseUnsigned(const Field& field);

// A finite number in low..high.
double ParseReal(const Field& field, double low, double high);

// Seconds >= 0 in decimal, rounded to the nearest nanosecond. Numbers with an exponent have the
// precision of double.
Duration ParseSeconds(const Field& field);

// Time since 1970 in UTC of "2023-11-16 18:17:03.9799600". A T may replace the space; a zone "Z"
// or "+hh:mm" may follow. Years 1970 to 2095.
Duration ParseTimestamp(const Field& field);

}  // namespace twin
