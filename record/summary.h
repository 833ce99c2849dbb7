// A run's results as an ordered list of named numbers.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace twin {

// A count, a measured number (NaN: undefined, for example the percentile of nothing), or a text.
using SummaryValue = std::variant<std::int64_t, double, std::string>;

struct SummaryEntry {
  std::string name;  // ends in its unit where it has one: mean_ttft_ms, simulated_seconds
  SummaryValue value;

  bool operator==(const SummaryEntry&) const = default;
};

class Summary {
 public:
  // Replaces the value if the name is known, so that names stay unique.
  void Set(std::string_view name, SummaryValue value);

  // nullptr if there is no such entry.
  [[nodiscard]] const SummaryValue* Find(std::string_view name) const;
  // A count or a measured number. REQUIRES: the entry exists and is no text.
  [[nodiscard]] double Number(std::string_view name) const;

  [[nodiscard]] const std::vector<SummaryEntry>& entries() const { return entries_; }

 private:
  std::vector<SummaryEntry> entries_;
};

struct NamedSummary {
  std::string name;
  const Summary* summary = nullptr;
};

// One JSON object, an entry a line, in order. Numbers in the shortest form that reads back equal;
// undefined and infinite ones as null.
void WriteJson(std::ostream& out, const Summary& summary);

// Rows are metrics, columns are runs, aligned. Names of the rows in the order of their first
// appearance; "-" where a run lacks the metric or it is undefined. Six significant digits.
void WriteTable(std::ostream& out, std::span<const NamedSummary> runs);

}  // namespace twin
