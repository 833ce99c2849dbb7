// Parses JSON of traces and the members of a request in it. Every error names file, line and path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/files/line_reader.h"
#include "core/time.h"
#include "traces/units.h"

namespace twin {

// Parses one document. NaN and Infinity, which Python writes, become null. Throws InputError.
nlohmann::json ParseJson(std::string_view text, const LineReader& lines, std::string_view allowed);

// Parses one document, or one document a line, which are the elements of the result. Throws
// InputError.
std::vector<nlohmann::json> ParseJsonDocuments(LineReader& lines, std::string_view allowed);

// Row i has the elements i of the lists that `document` has under the keys, as members of one
// object, so that errors name the list. An empty list says nothing. Throws InputError for a list
// that is not as long as that of the first key. REQUIRES: the first key is that of a list.
std::vector<nlohmann::json> RowsOfLists(const nlohmann::json& document,
                                        std::initializer_list<const char*> keys,
                                        const LineReader& lines);

// Members of a request. A path is a list of names separated by dots ("info.input_tokens"). All
// functions but Find() and Shown() throw InputError that names the path.
class JsonRequestFields {
 public:
  // Borrows both arguments.
  JsonRequestFields(const nlohmann::json& request, const LineReader& lines)
      : request_(request), lines_(lines) {}

  // nullptr if a member is missing or null.
  [[nodiscard]] const nlohmann::json* Find(std::string_view path) const;
  [[nodiscard]] std::string Shown(std::string_view path) const;
  [[nodiscard]] std::int32_t Tokens(std::string_view path) const;
  // REQUIRES: 0 <= low <= high <= 2^53.
  [[nodiscard]] std::int64_t Integer(std::string_view path, std::int64_t low,
                                     std::int64_t high) const;
  // A time in units of `unit_seconds`, on any clock that starts in 1970 or later.
  [[nodiscard]] TimePoint Time(std::string_view path, double unit_seconds) const;
  // A length of time in units of `unit_seconds`, from 0 on; nullopt if it is missing or null.
  [[nodiscard]] std::optional<Duration> Span(std::string_view path, double unit_seconds) const;
  // A list of lengths of time; empty if it is missing or null.
  [[nodiscard]] std::vector<Duration> Spans(std::string_view path, double unit_seconds) const;
  // The number of a statistic; nullopt if it is missing or null.
  [[nodiscard]] std::optional<double> Number(std::string_view path) const;
  // The factor from the unit that the object names as its member "unit" to that of the quantity;
  // `otherwise` without such a member, or without the object.
  double UnitFactor(std::string_view path, Quantity quantity, double otherwise) const;
  // The text of the member, or its JSON; nullopt if it is missing, null, or means nothing.
  [[nodiscard]] std::optional<std::string> Text(std::string_view path) const;
  // True if the member names an error (words.h).
  [[nodiscard]] bool NamesError(std::string_view path) const;
  // True if the member is 0: a request without output is a failed one.
  [[nodiscard]] bool IsZero(std::string_view path) const;

 private:
  [[noreturn]] void Refuse(std::string_view path, const std::string& allowed) const;

  const nlohmann::json& request_;
  const LineReader& lines_;
};

}  // namespace twin
