// CPU time and memory that this process has used.
#pragma once

#include <string_view>

namespace twin::run {

struct ProcessUse {
  double cpu_seconds = 0;   // user and system, all threads
  double peak_rss_mib = 0;  // largest resident memory
};
ProcessUse UseOfThisProcess();

// Whether this entry of a summary holds a member of ProcessUse.
constexpr bool NamesProcessUse(std::string_view entry) {
  return entry == "cpu_seconds" || entry == "peak_rss_mib";
}

}  // namespace twin::run
