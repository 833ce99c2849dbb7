#include "lab/large_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace twin::lab {
namespace {

// The flags of the mapping that the address lies in; empty if the system does not tell them.
std::string FlagsOfMapping(std::uintptr_t address) {
  std::ifstream mappings("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(mappings, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= address && address < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return {};
}

TEST(LargePagesTest, TheHeapAsksForLargePagesUpToItsEnd) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  if (!UseLargePages(16 * kPage)) GTEST_SKIP() << "another allocator, or a system without them";
  const std::string flags = FlagsOfMapping(reinterpret_cast<std::uintptr_t>(sbrk(0)) - 2 * kPage);
  if (flags.empty()) GTEST_SKIP() << "a system without /proc/self/smaps";
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
}

}  // namespace
}  // namespace twin::lab
