#include "apps/python/run_table.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "run/record/row_cells.h"

namespace twin::python {

RunTable::RunTable(std::span<const TableColumn> columns) {
  for (const TableColumn& column : columns) Add(column);
}

void RunTable::Add(const TableColumn& column) {
  RunColumn added{column.name, RunColumn::Integers(), {}};
  if (column.unit == "s" || column.unit == "ms") added.values = RunColumn::Numbers();
  if (column.name == "status") {
    added.values = RunColumn::Words();
    added.words = kRequestStatusNames;
  } else if (column.name == "reject_reason") {
    added.values = RunColumn::Words();
    added.words = kRejectReasonNames;
  }
  columns_.push_back(std::move(added));
}

RunTable& RunTable::Count(std::int64_t count) {
  std::get<RunColumn::Integers>(columns_[cell_++].values).push_back(count);
  return *this;
}

RunTable& RunTable::Number(double value) {
  std::get<RunColumn::Numbers>(columns_[cell_++].values).push_back(value);
  return *this;
}

RunTable& RunTable::Nothing() { return Number(std::numeric_limits<double>::quiet_NaN()); }

RunTable& RunTable::Word(std::string_view word) {
  RunColumn& column = columns_[cell_++];
  const auto found = std::find(column.words.begin(), column.words.end(), word);
  CHECK(word.empty() || found != column.words.end());
  const auto code = word.empty() ? -1 : static_cast<int>(found - column.words.begin());
  std::get<RunColumn::Words>(column.values).push_back(static_cast<std::int8_t>(code));
  return *this;
}

RequestTable::RequestTable(const FurtherColumns& further)
    : further_(further), table_(RequestColumns(further)) {}

void RequestTable::OnEnded(const RequestLife& life) {
  AddRequestCells(table_, life, further_);
  table_.EndRow();
}

StepTable::StepTable(const FurtherColumns& further)
    : further_(further), table_(StepColumns(further)) {}

void StepTable::OnStepEnded(const EndedStep& step) {
  AddStepCells(table_, step, further_);
  table_.EndRow();
}

}  // namespace twin::python
