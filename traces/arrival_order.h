// Checks that the arrivals of a trace never decrease.
#pragma once

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
                            "nothing earlier than the row before, which is " +
                                std::to_string(Seconds(last_)) + " s after the trace's start");
  }

 private:
  TimePoint last_ = kTimeZero;
};

}  // namespace twin
