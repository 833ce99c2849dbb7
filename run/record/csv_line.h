// One line of a CSV file, built without allocation once it has reached its length.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "core/time.h"
#include "run/record/number_text.h"

namespace twin {

// Cells in order. Nothing is quoted: cells are numbers and plain words.
class CsvLine {
 public:
  CsvLine& Count(std::int64_t count) { return Decimal(count, 0); }
  CsvLine& Word(std::string_view word) {
    line_.append(word).push_back(',');
    return *this;
  }
  CsvLine& Number(double value) { return Word(RoundedText(value, 9)); }
  CsvLine& Seconds(TimePoint time) { return Decimal(Nanoseconds(time), 9); }
  CsvLine& Milliseconds(Duration duration) { return Decimal(duration.count(), 6); }
  CsvLine& Nothing() { return Word(""); }

  // Writes the line and starts a new one. REQUIRES: at least one cell.
  void WriteTo(std::ostream& out) {
    line_.back() = '\n';
    out.write(line_.data(), static_cast<std::streamsize>(line_.size()));
    line_.clear();
  }

 private:
  CsvLine& Decimal(std::int64_t value, int digits) {
    AppendDecimal(line_, value, digits);
    line_.push_back(',');
    return *this;
  }

  std::string line_;
};

}  // namespace twin
