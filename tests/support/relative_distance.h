// How far two lists of numbers, such as logits, are apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace twin::testing {

// |a - b| / |b|, in Euclid's norm; infinite if the lists differ in length.
inline double RelativeDistance(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double gap = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    gap += difference * difference;
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(gap / norm);
}

}  // namespace twin::testing
