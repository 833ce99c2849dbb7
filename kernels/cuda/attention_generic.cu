#include <cmath>

#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr float kLog2E = 1.4426950408889634F;
constexpr std::int64_t kHeadDimMax = 512;

struct Arguments {
  DeviceRows<const Bf16> q;
  DeviceRows<Bf16> out;
  AttentionArrays batch;
  std::int64_t sequences = 0;
  int head_dim = 0;
  int group = 0;
  int block_size = 0;
  int window = 0;
  float scale = 1;  // of the scores, without base 2
  float cap = 0;
  const Bf16* keys = nullptr;  // of the layer, in block 0
  std::int64_t values_offset = 0;
  std::int64_t block_stride = 0;
};

// The keys that a row attends to.
struct Sight {
  const std::int32_t* pages = nullptr;
  int begin = 0;
  int end = 0;
};

__device__ __forceinline__ Sight SightOf(const Arguments& arguments, std::int64_t row) {
  const AttentionArrays& batch = arguments.batch;
  if (row >= batch.first_query[arguments.sequences]) return {};
  std::int64_t low = 0;  // the last sequence that starts at the row or before it
  std::int64_t high = arguments.sequences;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (batch.first_query[middle] <= row ? low : high) = middle;
  }
  const std::int32_t first_page = batch.page_begin[low];
  if (batch.page_begin[low + 1] == first_page) return {};
  const auto from_last = static_cast<int>(batch.first_query[low + 1] - row);
  const int end = batch.kv_lengths[low] - from_last + 1;
  const int begin = arguments.window > 0 ? max(0, end - arguments.window) : 0;
  return {batch.page_indices + first_page, begin, end};
}

// kPairs: pairs of elements of a head that a lane accumulates. kQueries: query heads at a time.
template <int kPairs, int kQueries>
struct Memory {
  float queries[kQueries][kPairs * 2 * kWarp];
  float sums[kWarps][kQueries][kPairs * 2 * kWarp];
  float maxima[kWarps][kQueries];  // of scores, base 2
  float weights[kWarps][kQueries];
};

// The state of one warp: online softmax over the positions assigned to it.
template <int kWidth, int kPairs, int kQueries>
class Warp {
 public:
  __device__ __forceinline__ Warp(const Arguments& arguments, const Sight& sight,
                                  std::int64_t kv_head, const Memory<kPairs, kQueries>& memory)
      : arguments_(arguments), sight_(sight), memory_(memory), lane_(threadIdx.x % kWarp) {
    head_offset_ = kv_head * arguments.block_size * arguments.head_dim;
#pragma unroll
    for (int j = 0; j < kQueries; ++j) {
      maxima_[j] = -INFINITY;
      weights_[j] = 0;
    }
  }

  // Processes the positions among first..first + 31 that the row attends to.
  __device__ __forceinline__ void Attend(int first) {
    const int position = min(first + lane_, sight_.end - 1);
    const std::int64_t block = sight_.pages[position / arguments_.block_size];
    const Bf16* key = arguments_.keys + block * arguments_.block_stride + head_offset_ +
                      position % arguments_.block_size * arguments_.head_dim;
    float weights[kQueries];
    Scores(key, weights);
    Normalise(first + lane_ < sight_.end, weights);
    AddValues(key + arguments_.values_offset, min(kWarp, sight_.end - first), weights);
  }

  __device__ __forceinline__ void Publish(Memory<kPairs, kQueries>& memory) const {
    const unsigned warp = threadIdx.x / kWarp;
#pragma unroll
    for (int j = 0; j < kQueries; ++j) {
      if (lane_ == 0) {
        memory.maxima[warp][j] = maxima_[j];
        memory.weights[warp][j] = weights_[j];
      }
#pragma unroll
      for (int k = 0; k < kPairs; ++k) {
        memory.sums[warp][j][Element(k)] = sums_[j][k][0];
        memory.sums[warp][j][Element(k) + 1] = sums_[j][k][1];
      }
    }
  }

 private:
  // The first of the lane's k-th pair of elements.
  [[nodiscard]] __device__ __forceinline__ int Element(int k) const {
    return 2 * (k * kWarp + lane_);
  }

  // One position per lane, so that no sums across lanes are needed.
  __device__ __forceinline__ void Scores(const Bf16* key, float (&scores)[kQueries]) const {
#pragma unroll
    for (int j = 0; j < kQueries; ++j) scores[j] = 0;
    for (int d = 0; d < arguments_.head_dim; d += kWidth) {
      float elements[kWidth];
      LoadFloats<kWidth>(key + d, elements);
#pragma unroll
      for (int j = 0; j < kQueries; ++j) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) scores[j] += elements[i] * memory_.queries[j][d + i];
      }
    }
  }

  // Converts scores to weights relative to the new maxima, and rescales the sums so far.
  __device__ __forceinline__ void Normalise(bool in_sight, float (&scores)[kQueries]) {
#pragma unroll
    for (int j = 0; j < kQueries; ++j) {
      float score = arguments_.scale * scores[j];
      if (arguments_.cap > 0) score = arguments_.cap * tanhf(score / arguments_.cap);
      score = in_sight ? score * kLog2E : -INFINITY;
      float largest = score;
#pragma unroll
      for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, lanes));
      }
      largest = fmaxf(largest, maxima_[j]);  // finite: a chunk has a visible position
      scores[j] = exp2f(score - largest);
      const float shrink = exp2f(maxima_[j] - largest);
      weights_[j] = weights_[j] * shrink + WarpSum(scores[j]);
      maxima_[j] = largest;
#pragma unroll
      for (int k = 0; k < kPairs; ++k) {
        sums_[j][k][0] *= shrink;
        sums_[j][k][1] *= shrink;
      }
    }
  }

  // Each lane takes some elements of all positions, so that a warp reads whole rows of values.
  __device__ __forceinline__ void AddValues(const Bf16* value, int count,
                                            const float (&weights)[kQueries]) {
    const auto address = reinterpret_cast<unsigned long long>(value);
#pragma unroll 4
    for (int p = 0; p < count; ++p) {
      const auto* row = reinterpret_cast<const Bf16*>(__shfl_sync(~0U, address, p));
      float weight[kQueries];
#pragma unroll
      for (int j = 0; j < kQueries; ++j) weight[j] = __shfl_sync(~0U, weights[j], p);
#pragma unroll
      for (int k = 0; k < kPairs; ++k) {
        if (Element(k) >= arguments_.head_dim) continue;
        float pair[2];
        LoadFloats<2>(row + Element(k), pair);
#pragma unroll
        for (int j = 0; j < kQueries; ++j) {
          sums_[j][k][0] += weight[j] * pair[0];
          sums_[j][k][1] += weight[j] * pair[1];
        }
      }
    }
  }

  const Arguments& arguments_;
  const Sight& sight_;
  const Memory<kPairs, kQueries>& memory_;
  int lane_;
  std::int64_t head_offset_;
  float maxima_[kQueries];
  float weights_[kQueries];
  float sums_[kQueries][kPairs][2] = {};
};

// Merges the warps' states and writes the rows of the heads first..first + count - 1.
template <int kPairs, int kQueries>
__device__ __forceinline__ void Merge(const Arguments& arguments,
                                      const Memory<kPairs, kQueries>& memory, Bf16* out,
                                      int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count * arguments.head_dim; i += kThreads) {
    const int j = i / arguments.head_dim;
    const int d = i % arguments.head_dim;
    float largest = -INFINITY;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, memory.maxima[warp][j]);
    float sum = 0;
    float weight = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const float factor = exp2f(memory.maxima[warp][j] - largest);  // 0: the warp had no position
      sum += factor * memory.sums[warp][j][d];
      weight += factor * memory.weights[warp][j];
    }
    out[i] = Rounded<Bf16>(sum / weight);
  }
}

// Grid: (row, kv head, group of kQueries query heads).
template <int kWidth, int kPairs, int kQueries>
__global__ void __launch_bounds__(kThreads, kPairs* kQueries > 8 ? 1 : 2)
    AttentionKernel(Arguments arguments) {
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  const std::int64_t kv_head = blockIdx.y;
  const int first = static_cast<int>(blockIdx.z) * kQueries;
  const int count = min(kQueries, arguments.group - first);
  const int elements = count * arguments.head_dim;
  const std::int64_t column = (kv_head * arguments.group + first) * arguments.head_dim;
  Bf16* out = arguments.out.Row(row) + column;
  const Sight sight = SightOf(arguments, row);
  if (sight.begin >= sight.end) {
    for (int i = static_cast<int>(threadIdx.x); i < elements; i += kThreads)
      out[i] = Rounded<Bf16>(0);
    return;
  }
  auto& memory = BlockShared<Memory<kPairs, kQueries>>();
  const Bf16* queries = arguments.q.Row(row) + column;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * arguments.head_dim; i += kThreads) {
    memory.queries[i / arguments.head_dim][i % arguments.head_dim] =
        i < elements ? ToFloat(queries[i]) : 0;
  }
  __syncthreads();
  Warp<kWidth, kPairs, kQueries> mine(arguments, sight, kv_head, memory);
  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  for (int chunk = sight.begin + warp * kWarp; chunk < sight.end; chunk += kThreads) {
    mine.Attend(chunk);
  }
  mine.Publish(memory);
  __syncthreads();
  Merge(arguments, memory, out, count);
}

template <int kPairs, int kQueries>
void LaunchAttention(StreamView stream, const Arguments& arguments, std::int64_t rows,
                     std::int64_t kv_heads, bool packed) {
  const auto tiles = static_cast<unsigned>((arguments.group + kQueries - 1) / kQueries);
  const LaunchShape shape{dim3(static_cast<unsigned>(rows), static_cast<unsigned>(kv_heads), tiles),
                          kThreads};
  if (packed) {
    Launch(stream, shape, "GenericAttention", &AttentionKernel<kPackWidth<Bf16>, kPairs, kQueries>,
           arguments);
  } else {
    Launch(stream, shape, "GenericAttention", &AttentionKernel<2, kPairs, kQueries>, arguments);
  }
}

}  // namespace

void GenericAttention(StreamView stream, DeviceMatrix q, const AttentionArrays& device,
                      std::int64_t sequences, std::int64_t rows, const AttentionShape& shape,
                      const KvCacheView& cache, std::int64_t layer, std::int64_t window,
                      DeviceMatrix out) {
  const KvCacheShape& kv = cache.shape;
  CHECK(shape.head_dim == kv.head_dim && shape.kv_heads == kv.kv_heads);
  CHECK(shape.head_dim % 2 == 0 && shape.head_dim >= 2 && shape.head_dim <= kHeadDimMax);
  CHECK(kv.kv_heads > 0 && shape.heads % kv.kv_heads == 0 && kv.kv_heads <= kGridRowsMax);
  CHECK(q.dtype == kv.dtype && out.dtype == kv.dtype && rows <= q.rows && rows <= out.rows);
  CHECK(q.columns == shape.heads * shape.head_dim && out.columns == q.columns);
  CHECK(layer >= 0 && layer < kv.layers && q.stride % 2 == 0);
  if (rows == 0 || sequences == 0) return;
  CHECK(kv.dtype == DType::kBf16);
  const std::int64_t tile = kv.kv_heads * kv.block_size * kv.head_dim;
  const Arguments arguments{
      .q = RowsOf<const Bf16>(q),
      .out = RowsOf<Bf16>(out),
      .batch = device,
      .sequences = sequences,
      .head_dim = static_cast<int>(kv.head_dim),
      .group = static_cast<int>(shape.heads / kv.kv_heads),
      .block_size = static_cast<int>(kv.block_size),
      .window = static_cast<int>(window),
      .scale = shape.scale,
      .cap = shape.logit_cap,
      .keys = reinterpret_cast<const Bf16*>(cache.data) + layer * 2 * tile,
      .values_offset = tile,
      .block_stride = kv.BlockBytes() / static_cast<std::int64_t>(sizeof(Bf16))};
  const bool packed = kv.head_dim % kPackWidth<Bf16> == 0 && IsPacked(cache.data) &&
                      kv.BlockBytes() % kPackBytes == 0;
  const auto launch = [&]<int kPairs, int kQueries>() {
    LaunchAttention<kPairs, kQueries>(stream, arguments, rows, kv.kv_heads, packed);
  };
  const bool alone = arguments.group == 1;
  if (kv.head_dim <= 64) {
    alone ? launch.template operator()<1, 1>() : launch.template operator()<1, 8>();
  } else if (kv.head_dim <= 128) {
    alone ? launch.template operator()<2, 1>() : launch.template operator()<2, 8>();
  } else if (kv.head_dim <= 256) {
    alone ? launch.template operator()<4, 1>() : launch.template operator()<4, 4>();
  } else {
    alone ? launch.template operator()<8, 1>() : launch.template operator()<8, 2>();
  }
}

}  // namespace twin::kernels::cuda
