#include "run/record/step_rows.h"

#include <ostream>

#include "run/record/row_cells.h"

namespace twin {

StepRows::StepRows(std::ostream& out, const FurtherColumns& further)
    : out_(out), further_(further) {
  out_ << HeaderLine(StepColumns(further));
}

void StepRows::OnStepEnded(const EndedStep& step) {
  AddStepCells(line_, step, further_);
  line_.WriteTo(out_);
}

}  // namespace twin
