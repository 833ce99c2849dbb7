#include <algorithm>
#include <atomic>

#include "kernels/ceilings.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

constexpr std::int64_t kReadFloats = std::int64_t{1} << 18;

// Receives unneeded results, so that the compiler keeps the work.
std::atomic<float> unused_result{0};

}  // namespace

std::int64_t RunMultiplyAdds(ThreadPool& pool, std::int64_t rounds) {
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  std::atomic<std::int64_t> operations{0};
  // Many ranges, so that the other threads take over the share of a thread that wakes late.
  constexpr std::int64_t kRanges = 16;
  const std::int64_t ranges = kRanges * pool.threads();
  pool.ParallelFor(ranges, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t done = 0;
      unused_result.store(kernels.multiply_adds(rounds / kRanges, &done),
                          std::memory_order_relaxed);
      operations.fetch_add(done, std::memory_order_relaxed);
    }
  });
  return operations.load();
}

void ReadMemory(ThreadPool& pool, std::span<const float> memory) {
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  const auto size = static_cast<std::int64_t>(memory.size());
  pool.ParallelFor(size, kReadFloats, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    unused_result.store(kernels.read_through(memory.data() + begin, end - begin),
                        std::memory_order_relaxed);
  });
}

}  // namespace twin::kernels
