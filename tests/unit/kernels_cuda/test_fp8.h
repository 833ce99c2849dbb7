// Numbers of 8 bits, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/quantize.h"

namespace twin::kernels::cuda {

// e4m3: a sign, four bits of exponent, three of fraction; no infinity, one NaN of each sign.
inline float Fp8ToFloat(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int fraction = bits & 0x7;
  if (exponent == 0xF && fraction == 0x7) return std::numeric_limits<float>::quiet_NaN();
  const int significand = exponent == 0 ? fraction : 8 + fraction;
  const float size =
      std::ldexp(static_cast<float>(significand), exponent == 0 ? -9 : exponent - 10);
  return (bits & 0x80) != 0 ? -size : size;
}

// The byte of the number of e4m3 next to `value`; of two, the one with the even byte.
inline std::uint8_t NearestFp8(float value) {
  const float size = std::min(std::abs(value), kFp8Max);
  std::uint8_t nearest = 0;
  for (std::uint8_t bits = 1; bits < 0x7F; ++bits) {
    const float gap = std::abs(Fp8ToFloat(bits) - size);
    const float least = std::abs(Fp8ToFloat(nearest) - size);
    if (gap < least || (gap == least && bits % 2 == 0)) nearest = bits;
  }
  return static_cast<std::uint8_t>(nearest | (std::signbit(value) ? 0x80U : 0U));
}

}  // namespace twin::kernels::cuda
