// Quantities with a unit: a number that cannot be mixed with another unit's.
#pragma once

#include <compare>
#include <cstdint>

namespace twin {

// An int64 count of one unit. Explicit to make, adds and compares with its own kind, scales by
// integers. Tokens and blocks on the scheduling path are plain int32 with the unit in the name
// (docs/decisions/0003); quantities of hardware and models use this type.
template <class Unit>
struct Quantity {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.count + b.count}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.count - b.count}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return {a.count * n}; }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return {a.count * n}; }
  // How many times `b` fits into `a`, rounded down.
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.count / b.count; }
  constexpr Quantity& operator+=(Quantity other) {
    count += other.count;
    return *this;
  }
};

using Bytes = Quantity<struct BytesUnit>;
using Flops = Quantity<struct FlopsUnit>;

}  // namespace twin
