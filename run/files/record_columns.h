// The encoding of numbers in the columns of a record's messages.
#pragma once

#include <cstdint>
#include <limits>

#include "core/check.h"
#include "core/ids.h"

namespace twin::record_columns {

inline constexpr std::uint32_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// Turns a column of numbers into differences.
class Differences {
 public:
  std::int64_t operator()(std::int64_t value) {
    const std::int64_t difference = value - previous_;
    previous_ = value;
    return difference;
  }

 private:
  std::int64_t previous_ = 0;
};

// The reverse, for request and block ids.
class Sums {
 public:
  Sums(std::int64_t min, std::int64_t max) : min_(min), max_(max) {}

  // False if the sum lies outside of [min, max].
  bool Add(std::int64_t difference, std::int64_t& sum) {
    std::int64_t next = 0;
    if (__builtin_add_overflow(previous_, difference, &next)) return false;
    previous_ = sum = next;
    return next >= min_ && next <= max_;
  }

 private:
  std::int64_t previous_ = 0;
  std::int64_t min_;
  std::int64_t max_;
};

inline Sums RequestSums() { return {0, std::numeric_limits<std::uint32_t>::max()}; }
inline Sums BlockSums() { return {-1, kInt32Max}; }

inline std::uint32_t Unsigned(std::int32_t value) {
  CHECK(value >= 0);
  return static_cast<std::uint32_t>(value);
}

// False if the number does not fit a non-negative int32.
inline bool Signed(std::uint32_t number, std::int32_t& value) {
  value = static_cast<std::int32_t>(number);
  return number <= kInt32Max;
}

template <class Enum>
bool Enumerator(std::uint32_t number, Enum last, Enum& value) {
  value = static_cast<Enum>(number);
  return number <= static_cast<std::uint32_t>(last);
}

inline RequestId ToRequest(std::int64_t number) {
  return RequestId{static_cast<std::uint32_t>(number)};
}
inline BlockId ToBlock(std::int64_t number) { return BlockId{static_cast<std::int32_t>(number)}; }

}  // namespace twin::record_columns
