// Quotients of what a run counted and measured.
#pragma once

#include <limits>

namespace twin {

// NaN, which is written as undefined, unless the denominator is above 0. Counts up to 2^53 are
// exact.
template <class Numerator, class Denominator>
double Ratio(Numerator numerator, Denominator denominator) {
  const auto over = static_cast<double>(denominator);
  return over > 0 ? static_cast<double>(numerator) / over
                  : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace twin
