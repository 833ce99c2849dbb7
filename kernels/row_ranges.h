// Runs a function over the rows of a matrix, in parallel if there is enough work. Private to this
// layer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/thread_pool.h"

namespace twin::kernels {

// Calls body(row) for rows 0..rows-1, each of `width` elements. Threads get ranges of rows with
// about kElementsPerRange elements.
template <class Body>
void ForEachRow(ThreadPool& pool, std::int64_t rows, std::int64_t width, const Body& body) {
  constexpr std::int64_t kElementsPerRange = 8192;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementsPerRange / std::max<std::int64_t>(1, width));
  pool.ParallelFor(rows, grain, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace twin::kernels
