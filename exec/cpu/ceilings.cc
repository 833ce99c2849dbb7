#include "exec/cpu/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "core/statistics.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ceilings.h"
#include "kernels/thread_pool.h"

namespace twin::exec {
namespace {

constexpr std::int64_t kMultiplyAddRounds = 200'000;  // some milliseconds
constexpr RepeatRule kRule{
    .count_min = 5, .count_max = 20, .seconds_max = 0.4, .relative_error = 0.005};
// Everything is measured in turn in each round, so that other programs disturb all measurements
// alike.
constexpr int kRounds = 4;

template <class Work>
double SecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Append(const std::vector<double>& more, std::vector<double>& values) {
  values.insert(values.end(), more.begin(), more.end());
}

ComputeCeiling CeilingOf(kernels::InstructionSet set, std::int64_t operations,
                         const std::vector<double>& seconds) {
  const Spread spread = SpreadOf(seconds);
  return {.set = set,
          .flops_per_s = static_cast<double>(operations) / spread.median,
          .flops_per_s_best = static_cast<double>(operations) / Quantile(seconds, 0),
          .spread = spread.relative()};
}

std::int64_t Configured(int name) { return std::max<std::int64_t>(sysconf(name), 0); }

}  // namespace

double CpuCeilings::flops_per_s_best() const {
  double best = 0;
  for (const ComputeCeiling& ceiling : compute) best = std::max(best, ceiling.flops_per_s_best);
  return best;
}

std::int64_t ReadArrayBytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const std::int64_t cache = Configured(_SC_LEVEL3_CACHE_SIZE);
#else
  const std::int64_t cache = 0;
#endif
  const std::int64_t wanted = std::max(4 * cache, std::int64_t{1} << 30);
#ifdef _SC_AVPHYS_PAGES
  const std::int64_t free_bytes = Configured(_SC_AVPHYS_PAGES) * Configured(_SC_PAGESIZE);
  if (free_bytes > 0) return std::max(std::min(wanted, free_bytes / 4), std::int64_t{1} << 20);
#endif
  return wanted;
}

CpuCeilings MeasureCeilings(std::int32_t threads, std::int64_t read_bytes) {
  const auto sets = kernels::UsableInstructionSets(kernels::DetectCpu());
  const kernels::AlignedBuffer memory(static_cast<std::size_t>(read_bytes));
  const std::span<const float> floats(reinterpret_cast<const float*>(memory.data()),
                                      memory.size() / sizeof(float));
  std::vector<std::int64_t> operations(sets.size());
  std::vector<std::vector<double>> compute_s(sets.size());
  std::vector<double> read_s;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      kernels::ThreadPool pool(threads, sets[i]);
      Append(Repeat(kRule,
                    [&] {
                      return SecondsOf([&] {
                        operations[i] = kernels::RunMultiplyAdds(pool, kMultiplyAddRounds);
                      });
                    }),
             compute_s[i]);
    }
    kernels::ThreadPool pool(threads);
    Append(Repeat(kRule, [&] { return SecondsOf([&] { kernels::ReadMemory(pool, floats); }); }),
           read_s);
  }
  CpuCeilings ceilings{.threads = threads, .compute = {}, .read_bytes = read_bytes};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    ceilings.compute.push_back(CeilingOf(sets[i], operations[i], compute_s[i]));
  }
  const Spread spread = SpreadOf(read_s);
  const auto bytes = static_cast<double>(floats.size_bytes());
  ceilings.read_bytes_per_s = bytes / spread.median;
  ceilings.read_bytes_per_s_best = bytes / Quantile(read_s, 0);
  ceilings.read_spread = spread.relative();
  return ceilings;
}

}  // namespace twin::exec
