#include "core/seed_range.h"

#include <fmt/format.h>

#include <limits>

#include "core/check.h"
#include "core/input_error.h"

namespace twin {

void RequireSeeds(const std::string& where, std::uint64_t first, std::uint64_t count) {
  CHECK(count >= 1);
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max() - (count - 1);
  if (first <= largest) return;
  throw InputError(InputError::Kind::kUsage, where,
                   fmt::format("seed: {} is too large for {} seeds in a row; allowed: 0 to {}",
                               first, count, largest));
}

}  // namespace twin
