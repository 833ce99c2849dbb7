// The fields of a trace, with their limits.
#pragma once

#include <cstdint>

#include "core/files/field.h"
#include "core/time.h"

namespace twin {

// The longest prompt or output, in tokens; the sum of both fits into 32 bits.
constexpr std::int32_t kTokensMax = (1 << 30) - 1;

// The latest arrival, about 126 years; sums with other times fit into 64 bits.
constexpr Duration kArrivalMax{4'000'000'000'000'000'000};

// A length: 1..kTokensMax. Throws InputError.
inline std::int32_t ParseTokens(const Field& field) {
  return static_cast<std::int32_t>(ParseInteger(field, 1, kTokensMax));
}

}  // namespace twin
