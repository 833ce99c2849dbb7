// The tables of a run, requests and steps, as columns in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/time.h"
#include "run/record/csv_columns.h"
#include "run/record/run_listener.h"

namespace twin::python {

// A column of words holds their positions in `words`, -1 for an empty cell.
struct RunColumn {
  using Integers = std::vector<std::int64_t>;
  using Numbers = std::vector<double>;  // NaN: an empty cell
  using Words = std::vector<std::int8_t>;

  std::string_view name;
  std::variant<Integers, Numbers, Words> values;
  std::span<const std::string_view> words;
};

// Takes rows cell by cell as CsvLine does (run/record/row_cells.h). Times and durations have the
// unit of their column, and exactly the value that is read back from the CSV file.
class RunTable {
 public:
  explicit RunTable(std::span<const TableColumn> columns);

  RunTable& Count(std::int64_t count);
  RunTable& Seconds(TimePoint time) { return Number(static_cast<double>(Nanoseconds(time)) / 1e9); }
  RunTable& Milliseconds(Duration duration) {
    return Number(static_cast<double>(duration.count()) / 1e6);
  }
  RunTable& Number(double value);
  RunTable& Word(std::string_view word);
  RunTable& Nothing();

  // Ends a row.
  void EndRow() { cell_ = 0; }

  [[nodiscard]] const std::vector<RunColumn>& columns() const { return columns_; }

 private:
  void Add(const TableColumn& column);

  std::vector<RunColumn> columns_;
  std::size_t cell_ = 0;  // of the row that is being written
};

// requests.csv: one row per request that has left.
class RequestTable final : public RunListener {
 public:
  explicit RequestTable(const FurtherColumns& further);
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnEnded(const RequestLife& life) override;
  [[nodiscard]] const RunTable& table() const { return table_; }

 private:
  FurtherColumns further_;
  RunTable table_;
};

// steps.csv: one row per step.
class StepTable final : public RunListener {
 public:
  explicit StepTable(const FurtherColumns& further);
  void OnStepEnded(const EndedStep& step) override;
  [[nodiscard]] const RunTable& table() const { return table_; }

 private:
  FurtherColumns further_;
  RunTable table_;
};

}  // namespace twin::python
