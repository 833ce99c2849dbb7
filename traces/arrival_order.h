// The rule that a trace's arrivals do not fall.
#pragma once

#include <cstdint>
#include <string>

#include "core/time.h"
#include "traces/field.h"

namespace twin {

class ArrivalOrder {
 public:
  // False: earlier than one before.
  bool Accepts(TimePoint arrival) {
    if (arrival < last_) return false;
    last_ = arrival;
    return true;
  }

  // Throws the InputError for a field that was not accepted.
  [[noreturn]] void Refuse(const Field& field) const {
    field.lines.RefuseField(field.name, field.text,
                            "nothing earlier than the row before, which is " +
                                std::to_string(Seconds(last_)) + " s after the trace's start");
  }

 private:
  TimePoint last_ = kTimeZero;
};

}  // namespace twin
