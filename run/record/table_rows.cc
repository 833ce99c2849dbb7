#include "run/record/table_rows.h"

#include <ostream>

#include "run/record/row_cells.h"

namespace twin {

RequestRows::RequestRows(std::ostream& out, const FurtherColumns& further)
    : out_(out), further_(further) {
  out_ << HeaderLine(RequestColumns(further));
}

void RequestRows::Write(const RequestLife& life) {
  AddRequestCells(line_, life, further_);
  line_.WriteTo(out_);
}

StepRows::StepRows(std::ostream& out, const FurtherColumns& further)
    : out_(out), further_(further) {
  out_ << HeaderLine(StepColumns(further));
}

void StepRows::OnStepEnded(const EndedStep& step) {
  AddStepCells(line_, step, further_);
  line_.WriteTo(out_);
}

PartRows::PartRows(std::ostream& out, const FurtherColumns& further)
    : out_(out), further_(further) {
  out_ << HeaderLine(PartColumns(further));
}

void PartRows::Add(std::int32_t replica, StepId id, const StepTimes& times) {
  line_.Count(static_cast<std::int64_t>(Index(id)))
      .Seconds(times.planned)
      .Seconds(times.started)
      .Seconds(times.finished)
      .Seconds(times.told);
  for (const Duration time : times.parts.times) line_.Milliseconds(time);
  if (further_.replica) line_.Count(replica);
  line_.WriteTo(out_);
}

}  // namespace twin
