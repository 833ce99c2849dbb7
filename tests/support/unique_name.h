// Names of files that tests running at the same time do not share.
#pragma once

#include <unistd.h>

#include <string>

namespace twin::testing {

// Differs between processes and between calls. Addresses would not do: a sanitizer's allocator
// gives equal ones to all processes.
inline std::string UniqueName(const std::string& stem) {
  static int calls = 0;
  return "twin_" + stem + "_" + std::to_string(getpid()) + "_" + std::to_string(calls++);
}

}  // namespace twin::testing
