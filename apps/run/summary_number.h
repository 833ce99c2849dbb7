// Numbers of a summary that a run may lack.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "run/record/summary.h"

namespace twin::apps {

// NaN, which fails every comparison, for a key that is not there or holds a text.
inline double NumberIn(const Summary& summary, std::string_view name) {
  const SummaryValue* const value = summary.Find(name);
  const bool is_number = value != nullptr && !std::holds_alternative<std::string>(*value);
  return is_number ? summary.Number(name) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace twin::apps
