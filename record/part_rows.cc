#include "record/part_rows.h"

#include <cstdint>
#include <ostream>

#include "record/csv_columns.h"

namespace twin {

PartRows::PartRows(std::ostream& out) : out_(out) { out_ << HeaderLine(PartColumns()); }

void PartRows::Add(StepId id, const StepTimes& times) {
  line_.Count(static_cast<std::int64_t>(Index(id)))
      .Seconds(times.planned)
      .Seconds(times.started)
      .Seconds(times.finished)
      .Seconds(times.told);
  for (const Duration time : times.parts.times) line_.Milliseconds(time);
  line_.WriteTo(out_);
}

}  // namespace twin
