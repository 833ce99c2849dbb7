// How policies say that the fields of a configuration contradict each other.
#pragma once

#include <cstdint>
#include <string>

#include "core/input_error.h"

namespace twin {

// Throws InputError (usage) "policy.FIELD: is VALUE, ALLOWED" unless `holds`.
inline void RequireField(bool holds, const std::string& field, std::int64_t value,
                         const std::string& allowed) {
  if (holds) return;
  throw InputError(InputError::Kind::kUsage, "policy." + field,
                   "is " + std::to_string(value) + ", " + allowed);
}

inline std::string AtLeastField(const char* other, std::int64_t value) {
  return std::string("must be at least ") + other + " (" + std::to_string(value) + ")";
}

inline std::string AtMostField(const char* other, std::int64_t value) {
  return std::string("must be at most ") + other + " (" + std::to_string(value) + ")";
}

}  // namespace twin
