#include "run/record/part_rows.h"

#include <ostream>

#include "run/record/csv_columns.h"

namespace twin {

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
