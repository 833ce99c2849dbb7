#include "record/part_rows.h"

#include <cstdint>
#include <ostream>
#include <string_view>

namespace twin {

PartRows::PartRows(std::ostream& out) : out_(out) {
  out_ << "step,planned_s,started_s,finished_s,told_s";
  for (const std::string_view name : kStepPartNames) out_ << "," << name << "_ms";
  out_ << "\n";
}

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
