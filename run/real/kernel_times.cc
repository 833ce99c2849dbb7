#include "run/real/kernel_times.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/csv.h"
#include "core/files/output_file.h"
#include "core/statistics.h"

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
    kernels[i].us = Median(std::move(us));
    kernels[i].gap_us = Median(std::move(gaps));
  }
  return kernels;
}

void KernelTimesFile::Add(const TracedStep& step, const std::function<void()>& run) {
  trace_.Take();  // drops kernels that ran before
  std::vector<std::vector<exec::KernelRun>> repeats;
  for (int i = 0; i < kTracedRepeats; ++i) {
    run();
    repeats.push_back(trace_.Take());
  }
  std::size_t node = 0;
  CsvLine line;
  for (const KernelTime& kernel : MedianKernelTimes(repeats)) {
    line.Word(step.phase).Count(step.batch).Count(step.length).Count(node++).Word(kernel.name);
    line.Word(fmt::format("{:.3f}", kernel.us)).Word(fmt::format("{:.3f}", kernel.gap_us));
    line.AppendTo(text_);
  }
  WriteFile(path_, text_);
}

}  // namespace twin::run
