#include "run/machine_load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "run/process_use.h"

namespace twin::run {
namespace {

constexpr std::int64_t kTicksMin = 100;

double StealShare(const MachineSample& from, const MachineSample& to) {
  return static_cast<double>(to.steal - from.steal) / static_cast<double>(to.total - from.total);
}

// The two counters are read one after the other, so the difference may come out just below 0.
double OtherCpus(const MachineSample& from, const MachineSample& to) {
  const double other = static_cast<double>(to.busy - from.busy) - (to.own - from.own);
  return std::max(other, 0.0) / static_cast<double>(to.total - from.total) * to.cpus;
}

}  // namespace

std::optional<MachineSample> ParseProcStat(std::string_view text) {
  std::istringstream in{std::string(text)};
  MachineSample sample;
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    if (line[3] != ' ') {
      ++sample.cpus;
      continue;
    }
    // user nice system idle iowait irq softirq steal; guests are counted in user and nice.
    std::array<std::int64_t, 8> ticks{};
    std::istringstream numbers(line.substr(4));
    for (std::int64_t& value : ticks) numbers >> value;
    sample.busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    sample.steal = ticks[7];
    sample.total = sample.busy + sample.steal + ticks[3] + ticks[4];
  }
  if (sample.total <= 0 || sample.cpus == 0) return std::nullopt;
  return sample;
}

std::optional<MachineSample> SampleMachine() {
  std::ifstream stat("/proc/stat");
  std::ostringstream text;
  text << stat.rdbuf();
  std::optional<MachineSample> sample = ParseProcStat(text.str());
  if (!sample) return std::nullopt;
  sample->own = UseOfThisProcess().cpu_seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream("/proc/loadavg") >> sample->load_average;
  return sample;
}

std::string MachineLoad::text() const {
  return fmt::format("{:.1f} % of the CPU time stolen, other processes used {:.2f} of {} CPUs",
                     100 * steal_share, other_cpus, cpus);
}

void MachineLoadMeter::Add(const std::optional<MachineSample>& sample) {
  if (!sample) return;
  if (!first_) first_ = interval_begin_ = sample;
  last_ = sample;
  if (last_->total - interval_begin_->total < kTicksMin) return;
  other_cpus_max_ = std::max(other_cpus_max_, OtherCpus(*interval_begin_, *last_));
  interval_begin_ = last_;
}

std::optional<MachineLoad> MachineLoadMeter::Result() const {
  if (!first_ || last_->total - first_->total < kTicksMin) return std::nullopt;
  MachineLoad load;
  load.steal_share = StealShare(*first_, *last_);
  load.other_cpus = OtherCpus(*first_, *last_);
  load.other_cpus_max = std::max(other_cpus_max_, load.other_cpus);
  load.cpus = last_->cpus;
  load.load_average_begin = first_->load_average;
  load.load_average_end = last_->load_average;
  return load;
}

}  // namespace twin::run
