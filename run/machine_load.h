// Load that other programs put on the machine while a real run was measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace twin::run {

// Counters since boot, as /proc/stat and the process's own CPU time have them. All in clock ticks.
struct MachineSample {
  std::int64_t total = 0;  // time of all CPUs, idle time included
  std::int64_t busy = 0;   // in any process or the kernel
  std::int64_t steal = 0;  // taken by the hypervisor
  double own = 0;          // CPU time of this process, all threads
  std::int32_t cpus = 0;
  double load_average = 0;  // over the last minute
};

// Reads the text of /proc/stat; nullopt if it counts no time, as in some containers. Leaves own and
// load_average 0.
std::optional<MachineSample> ParseProcStat(std::string_view text);

// Reads the counters of this machine, now.
std::optional<MachineSample> SampleMachine();

struct MachineLoad {
  double steal_share = 0;     // share of the CPU time of all CPUs
  double other_cpus = 0;      // CPUs kept busy by other processes, on average
  double other_cpus_max = 0;  // in the busiest interval between two samples
  std::int32_t cpus = 0;
  double load_average_begin = 0;
  double load_average_end = 0;

  // More than 1 % of the CPU time was stolen, or other processes used more than 5 % of it. Below
  // that the run-to-run noise of real runs is larger than the effect.
  [[nodiscard]] bool disturbed() const {
    return steal_share > 0.01 || other_cpus > 0.05 * static_cast<double>(cpus);
  }
  // One line: "0.4 % of the CPU time stolen, other processes used 0.31 of 2 CPUs".
  [[nodiscard]] std::string text() const;
};

// Sums up samples taken at the beginning of a run, at intervals, and at its end.
// Thread safety: none; one thread at a time.
class MachineLoadMeter {
 public:
  // Ignored if nullopt.
  void Add(const std::optional<MachineSample>& sample);

  // nullopt for less than a second of CPU time in all (100 ticks): too few for shares of ticks.
  [[nodiscard]] std::optional<MachineLoad> Result() const;

 private:
  std::optional<MachineSample> first_;
  std::optional<MachineSample> last_;
  std::optional<MachineSample> interval_begin_;
  double other_cpus_max_ = 0;
};

}  // namespace twin::run
