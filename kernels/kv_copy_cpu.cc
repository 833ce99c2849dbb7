#include <cstring>

#include "core/check.h"
#include "kernels/kv_copy.h"

namespace twin::kernels {

void CopyBlocks(ThreadPool& pool, const KvCacheView& from, const KvCacheView& to,
                std::span<const BlockCopy> copies) {
  KvCacheShape shape = from.shape;
  shape.blocks = to.shape.blocks;
  CHECK(shape == to.shape);
  const auto bytes = static_cast<std::size_t>(shape.BlockBytes());
  const auto count = static_cast<std::int64_t>(copies.size());
  pool.ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const BlockCopy& copy = copies[static_cast<std::size_t>(i)];
      CHECK(copy.source >= 0 && copy.source < from.shape.blocks);
      CHECK(copy.destination >= 0 && copy.destination < to.shape.blocks);
      std::memcpy(to.Block(copy.destination), from.Block(copy.source), bytes);
    }
  });
}

}  // namespace twin::kernels
