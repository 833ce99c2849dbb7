// Meaning of words in a file: nothing, success, failure. One list for all readers, with the
// spellings of Python, pandas, JSON, R, and spreadsheets. Capitals do not matter.
#pragma once

#include <cstdint>
#include <string_view>

namespace twin {

// True for an empty field and for words that stand for one: nan, None, null, NA, #N/A, <NA>, [],
// {}, "", - and similar words.
bool MeansNothing(std::string_view text);

enum class Outcome : std::uint8_t { kNothing, kSuccess, kFailure, kUnknown };

// Outcome that a status stands for: a word, a code of HTTP (200, 200.0, "200 OK"), or an exit code,
// of which 0 is success.
Outcome FindOutcome(std::string_view status);

// The statuses that FindOutcome() knows, for error messages.
inline constexpr std::string_view kStatusesAllowed =
    "a code (0 and 200 to 299 are success) or a word such as ok, success, completed, true, failed, "
    "error, timeout, cancelled, false";

// True if the field of a column of errors names an error: any text that does not mean nothing,
// false, no, success, 0 or 200 to 299.
bool NamesError(std::string_view error);

// True for a column or key that numbers or names the rows of a table, and says nothing more.
bool NamesRows(std::string_view name);

}  // namespace twin
