// Suggestions for a name that is not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace twin {

// Up to three of `names`, nearest first, as "a, b, c". Distance is the number of inserted, deleted
// and replaced characters, case ignored; equal distances keep the order of `names`.
std::string NearestNames(std::string_view name, std::span<const std::string_view> names);

}  // namespace twin
