// Closed loops of answers of one length.
#pragma once

#include <cstdint>

namespace twin {

// Users of a closed loop whose answers all have one length stay in lockstep: whoever begins
// together ends together, and all prompts come at once. Measured loops do not, because clients and
// servers take requests one after the other. Outputs that are uniform within a tenth of the length
// about it mix the users in the same way; the mean stays.
constexpr std::int64_t OutputSpread(std::int64_t tokens) { return tokens / 10; }

}  // namespace twin
