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
  // Borrows the table. The file appears with Commit(). Throws as core/files/compressible_file.h.
  PredictionFile(const std::filesystem::path& path, const CsvTable& table);

  // Writes the table's row with these times, in microseconds.
  void Add(double median, double low, double high);
  void Commit() { file_.Commit(); }

 private:
  // Cells of the current row in the columns that the copy keeps.
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
