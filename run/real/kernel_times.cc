#include "run/real/kernel_times.h"

#include <fmt/format.h>

#include <map>

#include "core/files/output_file.h"
#include "exec/profile/spread.h"

namespace twin::run {
namespace {

constexpr int kTracedRepeats = 5;

std::size_t UsualCount(std::span<const std::vector<exec::KernelRun>> repeats) {
  std::map<std::size_t, int> counts;
  for (const auto& repeat : repeats) ++counts[repeat.size()];
  std::size_t usual = 0;
  int most = 0;
  for (const auto& [count, times] : counts) {
    if (times <= most) continue;
    usual = count;
    most = times;
  }
  return usual;
}

// Names of kernels contain commas; quotes they do not.
std::string KernelRow(const TracedStep& step, std::size_t node, const KernelTime& kernel) {
  return fmt::format("{},{},{},{},\"{}\",{:.3f},{:.3f}\n", step.phase, step.batch, step.length,
                     node, kernel.name, kernel.us, kernel.gap_us);
}

}  // namespace

std::vector<KernelTime> MedianKernelTimes(std::span<const std::vector<exec::KernelRun>> repeats) {
  const std::size_t count = UsualCount(repeats);
  std::vector<KernelTime> kernels(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> us;
    std::vector<double> gaps;
    for (const auto& repeat : repeats) {
      if (repeat.size() != count) continue;
      const exec::KernelRun& kernel = repeat[i];
      kernels[i].name = kernel.name;
      us.push_back(1e-3 * static_cast<double>(kernel.end_ns - kernel.begin_ns));
      const std::int64_t before = i == 0 ? kernel.begin_ns : repeat[i - 1].end_ns;
      gaps.push_back(1e-3 * static_cast<double>(kernel.begin_ns - before));
    }
    kernels[i].us = exec::SpreadOf(us).median;
    kernels[i].gap_us = exec::SpreadOf(gaps).median;
  }
  return kernels;
}

void KernelTimesFile::Add(const TracedStep& step, const std::function<void()>& run) {
  trace_.Take();  // what ran before
  std::vector<std::vector<exec::KernelRun>> repeats;
  for (int i = 0; i < kTracedRepeats; ++i) {
    run();
    repeats.push_back(trace_.Take());
  }
  std::size_t node = 0;
  for (const KernelTime& kernel : MedianKernelTimes(repeats))
    text_ += KernelRow(step, node++, kernel);
  WriteFile(path_, text_);
}

}  // namespace twin::run
