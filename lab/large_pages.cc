#include "lab/large_pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace twin::lab {

bool UseLargePages([[maybe_unused]] std::size_t bytes) {
#ifdef __GLIBC__
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  constexpr int kMost = std::numeric_limits<int>::max();
  constexpr int kUsualPadding = 128 << 10;
  const auto end_of_heap = [] { return reinterpret_cast<std::uintptr_t>(sbrk(0)); };
  // Large blocks, too, come from the heap, which keeps its end when blocks there are freed.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kMost);
  mallopt(M_TOP_PAD, static_cast<int>(std::min<std::size_t>(bytes, kMost)));
  const std::uintptr_t begin = end_of_heap();
  // More than is free at the end of the heap, so that it grows now, by this and the padding.
  void* volatile more = std::malloc(8 * kPage);
  std::free(more);
  mallopt(M_TOP_PAD, kUsualPadding);
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = end_of_heap() / kPage * kPage;
  return first < last && madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE) == 0;
#else
  return false;
#endif
}

}  // namespace twin::lab
