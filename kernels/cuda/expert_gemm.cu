#include <algorithm>

#include "kernels/cuda/expert_gemm.h"
#include "kernels/cuda/skinny_tile.cuh"
#include "kernels/cuda/warp_mma.cuh"

namespace twin::kernels::cuda {
namespace {

struct ExpertOperands {
  DeviceRows<const Bf16> x;
  DeviceRows<const Bf16> w;
  DeviceRows<Bf16> y;
  const std::int32_t* first = nullptr;  // RoutedPairs::first
  const std::int32_t* rows = nullptr;   // RoutedPairs::rows; null: x has a row for each place
  std::int32_t experts = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;

  __device__ __forceinline__ const Bf16* InputOf(std::int32_t place) const {
    return x.Row(rows == nullptr ? place : rows[place]);
  }
  __device__ __forceinline__ const Bf16* WeightsOf(std::int32_t expert, std::int64_t output) const {
    return w.Row(expert * outputs + min(output, outputs - 1));
  }
};

// Neighbouring places of one expert.
struct PlaceTile {
  std::int32_t expert = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;  // 0 if there is no such tile
};

// Tile `number`, if each expert's places are cut into tiles of `size` and these are counted over
// all experts. REQUIRES: all lanes of the warp call it.
__device__ __forceinline__ PlaceTile TileAt(const std::int32_t* first, std::int32_t experts,
                                            std::int32_t size, std::int32_t number) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kWarp);
  std::int32_t before = 0;  // tiles of the experts that were counted
  for (std::int32_t from = 0; from < experts; from += kWarp) {
    const std::int32_t expert = min(from + lane, experts);
    const std::int32_t begin = first[expert];
    const std::int32_t end = first[min(expert + 1, experts)];
    const std::int32_t tiles = (end - begin + size - 1) / size;
    std::int32_t through = before + tiles;  // of the experts up to this one
#pragma unroll
    for (int lanes = 1; lanes < kWarp; lanes *= 2) {
      const std::int32_t others = __shfl_up_sync(~0U, through - before, lanes);
      if (lane >= lanes) through += others;
    }
    const int owner = __popc(__ballot_sync(~0U, through <= number));
    if (owner < kWarp) {
      const std::int32_t place = begin + (number - through + tiles) * size;
      PlaceTile tile;
      tile.expert = from + owner;
      tile.first = __shfl_sync(~0U, place, owner);
      tile.count = min(size, __shfl_sync(~0U, end, owner) - tile.first);
      return tile;
    }
    before = __shfl_sync(~0U, through, kWarp - 1);
  }
  return {};
}

// The most tiles of `size` places that any choice of experts has.
std::int64_t TilesMost(const RoutingShape& shape, std::int64_t size) {
  const std::int64_t pairs = shape.pairs();
  return std::min(pairs, pairs / size + std::min<std::int64_t>(shape.experts, pairs));
}

template <int kTokens>
struct PlaceRows {
  const Bf16* rows[kTokens];

  __device__ __forceinline__ const Bf16* Row(int t) const { return rows[t]; }
};

template <int kTokens, int kWidth>
__global__ void __launch_bounds__(kSkinnyThreads, 5) ExpertSkinnyKernel(ExpertOperands of) {
  WaitForEarlierKernels();
  const PlaceTile tile =
      TileAt(of.first, of.experts, kTokens, static_cast<std::int32_t>(blockIdx.x));
  if (tile.count == 0) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * kSkinnyOutputs;
  const Bf16* weights[kSkinnyOutputs];
#pragma unroll
  for (int n = 0; n < kSkinnyOutputs; ++n) weights[n] = of.WeightsOf(tile.expert, first + n);
  PlaceRows<kTokens> x;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) x.rows[t] = of.InputOf(tile.first + min(t, tile.count - 1));

  float sums[kSkinnyOutputs][kTokens] = {};
  AccumulateSkinny<kWidth>(
      weights, of.inputs, [&] { return x; }, sums);
  WriteBlockSums<kSkinnyWarps>(sums, [&](int n, int t, float sum) {
    if (first + n < of.outputs && t < tile.count) {
      of.y.Row(tile.first + t)[first + n] = Rounded<Bf16>(sum);
    }
  });
}

constexpr int kTileWarps = 4;
constexpr int kTileThreads = kTileWarps * kWarp;
constexpr int kTileOutputs = 128;
constexpr int kWarpOutputs = kTileOutputs / kTileWarps;
constexpr int kDepth = 32;                    // inputs in shared memory at a time
constexpr int kChunk = 8;                     // elements of a copy
constexpr int kTileStride = kDepth + kChunk;  // rows of a matrix fall into different banks
constexpr int kSharedMost = 48 << 10;         // the limit without a request for more

template <int kRows>
struct TileStages {
  static constexpr int kElements = (kRows + kTileOutputs) * kTileStride;
  static constexpr int kBytes = kElements * 2;
  static constexpr int kCount = std::min(4, kSharedMost / kBytes);
};

// The operands of one block: kRows rows of x above kTileOutputs rows of w, kDepth inputs at a time.
// A thread copies the same chunk of several rows.
template <int kRows>
class TileLoader {
 public:
  __device__ __forceinline__ TileLoader(const ExpertOperands& of, const PlaceTile& tile,
                                        std::int64_t first_output)
      : column_(static_cast<int>(threadIdx.x) % kChunks * kChunk),
        row_(static_cast<int>(threadIdx.x) / kChunks),
        inputs_(of.inputs) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = row_ + i * kRowsAtATime;
      rows_[i] = row < kRows ? of.InputOf(tile.first + min(row, tile.count - 1))
                             : of.WeightsOf(tile.expert, first_output + row - kRows);
    }
  }

  __device__ __forceinline__ void Start(Bf16* stage, std::int64_t first_input) const {
    const std::int64_t column = first_input + column_;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = row_ + i * kRowsAtATime;
      if (row >= kRows + kTileOutputs) break;
      StartCopy(stage + row * kTileStride + column_, rows_[i] + min(column, inputs_ - kChunk),
                column < inputs_);
    }
  }

 private:
  static constexpr int kChunks = kDepth / kChunk;
  static constexpr int kRowsAtATime = kTileThreads / kChunks;
  static constexpr int kCopies = (kRows + kTileOutputs + kRowsAtATime - 1) / kRowsAtATime;

  int column_;
  int row_;
  std::int64_t inputs_;
  const Bf16* rows_[kCopies];
};

constexpr int kTileRows = 16;    // of x in one product of tensor cores
constexpr int kTileColumns = 8;  // of y
constexpr int kTileInputs = 16;

// Adds the products of one stage. A warp computes all rows of kWarpOutputs outputs.
template <int kRows>
__device__ __forceinline__ void MultiplyStage(
    const Bf16* stage, float (&sums)[kRows / kTileRows][kWarpOutputs / kTileColumns][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Bf16* const x = stage + lane % 16 * kTileStride + lane / 16 * 8;
  const Bf16* const w = stage +
                        (kRows + warp * kWarpOutputs + lane / 16 * 8 + lane % 8) * kTileStride +
                        lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kDepth; k += kTileInputs) {
    unsigned weights[kWarpOutputs / 16][4];  // low and high inputs of 8 outputs, then of the next 8
#pragma unroll
    for (int n = 0; n < kWarpOutputs / 16; ++n)
      LoadMatrices(w + n * 16 * kTileStride + k, weights[n]);
#pragma unroll
    for (int m = 0; m < kRows / kTileRows; ++m) {
      unsigned inputs[4];
      LoadMatrices(x + m * kTileRows * kTileStride + k, inputs);
#pragma unroll
      for (int n = 0; n < kWarpOutputs / kTileColumns; ++n) {
        MultiplyTiles(inputs, weights[n / 2][n % 2 * 2], weights[n / 2][n % 2 * 2 + 1], sums[m][n]);
      }
    }
  }
}

template <int kRows>
__device__ __forceinline__ void WriteTile(
    const ExpertOperands& of, const PlaceTile& tile, std::int64_t first_output,
    const float (&sums)[kRows / kTileRows][kWarpOutputs / kTileColumns][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int m = 0; m < kRows / kTileRows; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * kTileRows + half * 8 + lane / 4;
      if (row >= tile.count) continue;
      Bf16* const to = of.y.Row(tile.first + row);
#pragma unroll
      for (int n = 0; n < kWarpOutputs / kTileColumns; ++n) {
        const std::int64_t output =
            first_output + warp * kWarpOutputs + n * kTileColumns + lane % 4 * 2;
        if (output >= of.outputs) continue;
        const float pair[2] = {sums[m][n][half * 2], sums[m][n][half * 2 + 1]};
        StoreRounded<2>(pair, to + output);
      }
    }
  }
}

// Computes kRows places of one expert with kTileOutputs of its outputs, on tensor cores. The next
// stages are being copied while one is multiplied.
template <int kRows>
__global__ void __launch_bounds__(kTileThreads, 3) ExpertTileKernel(ExpertOperands of) {
  constexpr int kStages = TileStages<kRows>::kCount;
  constexpr int kElements = TileStages<kRows>::kElements;
  WaitForEarlierKernels();
  const PlaceTile tile = TileAt(of.first, of.experts, kRows, static_cast<std::int32_t>(blockIdx.x));
  if (tile.count == 0) return;
  Bf16* const memory = DynamicShared<Bf16>();
  const std::int64_t first_output = std::int64_t{blockIdx.y} * kTileOutputs;
  const TileLoader<kRows> loader(of, tile, first_output);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    loader.Start(memory + stage * kElements, std::int64_t{stage} * kDepth);
    EndCopyGroup();
  }

  float sums[kRows / kTileRows][kWarpOutputs / kTileColumns][4] = {};
  const auto steps = static_cast<int>((of.inputs + kDepth - 1) / kDepth);
  for (int step = 0; step < steps; ++step) {
    AwaitCopies<kStages - 2>();
    __syncthreads();  // all copies have arrived, and the stage before this one has been read
    const int next = step + kStages - 1;
    if (next < steps) {
      loader.Start(memory + next % kStages * kElements, std::int64_t{next} * kDepth);
    }
    EndCopyGroup();
    MultiplyStage<kRows>(memory + step % kStages * kElements, sums);
  }
  AwaitCopies<0>();
  WriteTile<kRows>(of, tile, first_output, sums);
}

LaunchShape TileGrid(const RoutingShape& shape, std::int64_t size, std::int64_t outputs,
                     std::int64_t outputs_of_block, int threads) {
  const std::int64_t across = (outputs + outputs_of_block - 1) / outputs_of_block;
  CHECK(across <= kGridRowsMax);
  // Blocks of the same weights follow one another, so that the second reads them from the cache.
  return {dim3(static_cast<unsigned>(TilesMost(shape, size)), static_cast<unsigned>(across)),
          threads};
}

template <int kWidth>
void LaunchSkinny(StreamView stream, const RoutingShape& shape, const ExpertOperands& of) {
  const auto launch = [&](std::int64_t tokens, auto kernel) {
    Launch(stream, TileGrid(shape, tokens, of.outputs, kSkinnyOutputs, kSkinnyThreads),
           "ExpertGemm", kernel, of);
  };
  // An expert has at most as many places as there are rows.
  if (shape.rows == 1) return launch(1, &ExpertSkinnyKernel<1, kWidth>);
  if (shape.rows == 2) return launch(2, &ExpertSkinnyKernel<2, kWidth>);
  launch(4, &ExpertSkinnyKernel<4, kWidth>);
}

template <int kRows>
void LaunchTiles(StreamView stream, const RoutingShape& shape, const ExpertOperands& of) {
  LaunchShape grid = TileGrid(shape, kRows, of.outputs, kTileOutputs, kTileThreads);
  grid.shared_bytes = std::size_t{TileStages<kRows>::kCount} * TileStages<kRows>::kBytes;
  Launch(stream, grid, "ExpertGemm", &ExpertTileKernel<kRows>, of);
}

}  // namespace

void ExpertGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, const RoutedPairs& routed,
                ExpertInput input, DeviceMatrix y) {
  const RoutingShape& shape = routed.shape;
  const bool by_row = input == ExpertInput::kRows;
  CHECK(x.dtype == w.dtype && x.dtype == y.dtype && x.columns == w.columns);
  CHECK(x.rows == (by_row ? shape.rows : shape.pairs()) && y.rows == shape.pairs());
  CHECK(w.rows == shape.experts * y.columns);
  if (y.rows == 0 || y.columns == 0) return;
  const bool packed = IsPacked(x) && IsPacked(w) && IsPacked(y);
  const std::int64_t average = (shape.pairs() + shape.experts - 1) / shape.experts;
  CHECK(y.dtype == DType::kBf16);
  const ExpertOperands of{.x = RowsOf<const Bf16>(x),
                          .w = RowsOf<const Bf16>(w),
                          .y = RowsOf<Bf16>(y),
                          .first = routed.first,
                          .rows = by_row ? routed.rows : nullptr,
                          .experts = shape.experts,
                          .outputs = y.columns,
                          .inputs = x.columns};
  if (!packed) return LaunchSkinny<1>(stream, shape, of);
  if (average <= kSkinnyPlaces) return LaunchSkinny<kPackWidth<Bf16>>(stream, shape, of);
  if (average <= 16) return LaunchTiles<16>(stream, shape, of);
  if (average <= 32) return LaunchTiles<32>(stream, shape, of);
  LaunchTiles<64>(stream, shape, of);
}

}  // namespace twin::kernels::cuda
