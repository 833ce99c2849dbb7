// The copy of a table with the predictions of its rows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/compressible_file.h"
#include "core/files/csv.h"

namespace twin::run {

// A copy of a table with three more columns at the end: predicted_us, predicted_low_us and
// predicted_high_us, the median and the 90 % interval. The table's own columns of these names are
// left out.
class PredictionFile {
 public:
  // Borrows the table. The file appears with Commit() (core/files/compressible_file.h, whose errors
  // these are).
  PredictionFile(const std::filesystem::path& path, const CsvTable& table);

  // Writes the table's row with these times, in microseconds.
  void Add(double median, double low, double high);
  void Commit() { file_.Commit(); }

 private:
  // The cells of the table that the copy has.
  template <class Text>
  void AddKept(const std::vector<Text>& cells);
  void EndLine();

  const CsvTable& table_;
  CompressibleFile file_;
  std::vector<bool> kept_;  // by column of the table
  CsvLine line_;
  std::string text_;
};

}  // namespace twin::run
