// How a checkpoint stores weights in 4 bits, as its config.json says.
#pragma once

#include <cstdint>

namespace twin {

struct Int4Layout {
  enum class Kind : std::uint8_t { kGptq, kAwq };
  Kind kind = Kind::kGptq;
  std::int32_t group = 128;     // inputs that share a scale and a zero point; 0 = all of them
  bool zero_minus_one = false;  // zero points are stored less 1
  bool symmetric = false;       // all zero points are 8, whether stored as 8 or as 7

  bool operator==(const Int4Layout&) const = default;
};

}  // namespace twin
