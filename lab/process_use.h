// What this process has used of the machine.
#pragma once

namespace twin::lab {

struct ProcessUse {
  double cpu_seconds = 0;   // user and system, all threads
  double peak_rss_mib = 0;  // largest resident memory
};
ProcessUse UseOfThisProcess();

}  // namespace twin::lab
