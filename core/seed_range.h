// Seeds in a row, one for each run of many.
#pragma once

#include <cstdint>
#include <string>

namespace twin {

// Refuses `count` seeds from `first` on that would go beyond 2^64 - 1 and begin again at 0, whose
// runs may be there already. Throws InputError (usage); `where` says what asks for the seeds.
// REQUIRES: count >= 1.
void RequireSeeds(const std::string& where, std::uint64_t first, std::uint64_t count);

}  // namespace twin
