// Checks that the arrivals of a trace never decrease.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/time.h"
#include "traces/field.h"

namespace twin {

class ArrivalOrder {
 public:
  // False if `arrival` is earlier than an arrival before it.
  bool Accepts(TimePoint arrival) {
    if (arrival < last_) return false;
    last_ = arrival;
    return true;
  }

  // Throws InputError for the field of an arrival that was not accepted.
  [[noreturn]] void Refuse(const Field& field) const {
    field.lines.RefuseField(field.name, field.text,
                            fmt::format("nothing earlier than the row before, {} s after the "
                                        "trace's start",
                                        Seconds(last_)));
  }

 private:
  TimePoint last_ = kTimeZero;
};

}  // namespace twin
