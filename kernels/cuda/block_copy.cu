#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Number of units that each thread copies.
constexpr std::int64_t kUnitsOfThread = 8;

// Block (x, i) copies part x of the i-th copy. `stride` is the size of a KV block in units.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    CopyKernel(const Unit* from, Unit* to, const BlockCopy* copies, std::int64_t count,
               std::int64_t stride) {
  WaitForEarlierKernels();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = blockIdx.y; i < count; i += gridDim.y) {
    const Unit* source = from + copies[i].source * stride;
    Unit* destination = to + copies[i].destination * stride;
    for (std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; u < stride;
         u += step) {
      destination[u] = source[u];
    }
  }
}

template <class Unit>
void CopyUnits(StreamView stream, const KvCacheView& from, const KvCacheView& to,
               const BlockCopy* copies, std::int64_t count) {
  const std::int64_t stride = from.shape.BlockBytes() / static_cast<std::int64_t>(sizeof(Unit));
  const LaunchShape shape =
      RowGrid(count, (stride + kUnitsOfThread - 1) / kUnitsOfThread, kThreads);
  Launch(stream, shape, "CopyBlocks", &CopyKernel<Unit>, reinterpret_cast<const Unit*>(from.data),
         reinterpret_cast<Unit*>(to.data), copies, count, stride);
}

}  // namespace

void CopyBlocks(StreamView stream, const KvCacheView& from, const KvCacheView& to,
                const BlockCopy* copies, std::int64_t count) {
  KvCacheShape shape = from.shape;
  shape.blocks = to.shape.blocks;
  CHECK(shape == to.shape);
  const std::int64_t bytes = shape.BlockBytes();
  if (count == 0 || bytes == 0) return;
  if (bytes % kPackBytes == 0 && IsPacked(from.data) && IsPacked(to.data)) {
    CopyUnits<uint4>(stream, from, to, copies, count);
  } else {
    CopyUnits<std::uint16_t>(stream, from, to, copies, count);  // elements have 2 or 4 bytes
  }
}

}  // namespace twin::kernels::cuda
