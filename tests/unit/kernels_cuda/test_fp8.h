// Numbers of 8 bits, for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

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

}  // namespace twin::kernels::cuda
