#include "record/step_rows.h"

#include <ostream>

#include "record/csv_columns.h"
#include "record/row_cells.h"

namespace twin {

StepRows::StepRows(std::ostream& out) : out_(out) { out_ << HeaderLine(StepColumns()); }

void StepRows::OnStepEnded(const EndedStep& step) {
  AddStepCells(line_, step);
  line_.WriteTo(out_);
}

}  // namespace twin
