// A run's results as an ordered list of named numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace twin {

// A count, a measured number (NaN: undefined, as a quantile of no values), or a text.
using SummaryValue = std::variant<std::int64_t, double, std::string>;

struct SummaryEntry {
  std::string name;  // ends in its unit where it has one: mean_ttft_ms, simulated_seconds
  SummaryValue value;

  bool operator==(const SummaryEntry&) const = default;
};

// Names are unique. Set and Find take constant time, so that a run of thousands of tenants is
// summed up in linear time.
class Summary {
 public:
  // Replaces the value of a name that is already there and keeps its place; appends otherwise.
  void Set(std::string_view name, SummaryValue value);

  // nullptr if there is no such entry.
  [[nodiscard]] const SummaryValue* Find(std::string_view name) const;
  // A count or a measured number. REQUIRES: the entry exists and is not a text.
  [[nodiscard]] double Number(std::string_view name) const;

  [[nodiscard]] const std::vector<SummaryEntry>& entries() const { return entries_; }

 private:
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>{}(name);
    }
  };

  std::vector<SummaryEntry> entries_;
  // Positions in entries_. Looked up only, never walked: the order of a hash table shows nowhere.
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> positions_;
};

// One JSON object, one entry per line, in order. Numbers in the shortest form that reads back
// equal; undefined and infinite numbers as null.
void WriteJson(std::ostream& out, const Summary& summary);

// The quotient of two counts or times; NaN, which is written as undefined, unless the denominator
// is above 0. Counts up to 2^53 are exact.
template <class Numerator, class Denominator>
double Ratio(Numerator numerator, Denominator denominator) {
  const auto over = static_cast<double>(denominator);
  return over > 0 ? static_cast<double>(numerator) / over
                  : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace twin
