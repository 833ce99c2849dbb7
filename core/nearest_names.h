// Suggestions of known names for an unknown one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace twin {

// Up to three of `names`, nearest first, as "a, b, c". The distance is Levenshtein's: the number of
// inserted, deleted and replaced characters, ignoring case; 0 to a name that goes on behind
// `name` (GoesOnBehind()).
// Names at equal distance keep their order.
std::string NearestNames(std::string_view name, std::span<const std::string_view> names);

}  // namespace twin
