#include "run/process_use.h"

#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace twin::run {
namespace {

// Not from ru_maxrss: Linux includes the memory of the parent process in it.
double PeakRssMib(const rusage& use) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld kB", &kib) == 1) {
      return static_cast<double>(kib) / 1024.0;
    }
  }
  return static_cast<double>(use.ru_maxrss) / 1024.0;
}

}  // namespace

ProcessUse UseOfThisProcess() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(use.ru_utime) + seconds(use.ru_stime), PeakRssMib(use)};
}

}  // namespace twin::run
