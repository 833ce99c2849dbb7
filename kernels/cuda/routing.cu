#include <algorithm>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/routing.h"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = 4;  // a warp each
constexpr int kSortThreads = 256;
constexpr int kSumThreads = 256;
constexpr float kTaken = -1;  // replaces the exponential of a chosen expert

struct Choice {
  float value = kTaken;
  std::int32_t expert = 0;
};

// The largest exponential that is not taken, the first one among equals; the same in all lanes. NaN
// counts as 0, so that there is always one.
__device__ __forceinline__ Choice LargestLeft(const float* exponentials, std::int32_t experts) {
  Choice best{kTaken, experts};
  for (std::int32_t i = threadIdx.x % kWarp; i < experts; i += kWarp) {
    const float value = exponentials[i];
    if (value < 0) continue;
    const float key = fmaxf(value, 0);
    if (key > best.value) best = {key, i};
  }
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const float value = __shfl_xor_sync(~0U, best.value, lanes);
    const std::int32_t expert = __shfl_xor_sync(~0U, best.expert, lanes);
    if (value > best.value || (value == best.value && expert < best.expert)) best = {value, expert};
  }
  return best;
}

// Replaces logits by their exponentials, relative to the largest; returns the sum of these.
__device__ __forceinline__ float Exponentiate(float* logits, std::int32_t experts) {
  const std::int32_t lane = threadIdx.x % kWarp;
  float largest = -INFINITY;
  for (std::int32_t i = lane; i < experts; i += kWarp) largest = fmaxf(largest, logits[i]);
  largest = WarpMax(largest);
  float sum = 0;
  for (std::int32_t i = lane; i < experts; i += kWarp) {
    logits[i] = expf(logits[i] - largest);
    sum += logits[i];
  }
  return WarpSum(sum);
}

// One warp for each row. A lane reads and writes the same logits in every pass.
__global__ void __launch_bounds__(kRowsPerBlock* kWarp)
    ChooseExpertsKernel(DeviceRows<float> logits, RoutedPairs routed, bool normalised) {
  WaitForEarlierKernels();
  const RoutingShape& shape = routed.shape;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
  if (row >= shape.rows) return;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  float* const values = logits.Row(row);
  const float sum = Exponentiate(values, shape.experts);
  std::int32_t expert = 0;  // this lane's choice, if it has one
  float weight = 0;
  float sum_of_chosen = 0;
  for (int i = 0; i < shape.experts_per_row; ++i) {
    const Choice best = LargestLeft(values, shape.experts);
    if (best.expert % kWarp == lane) values[best.expert] = kTaken;
    const float share = best.value / sum;
    sum_of_chosen += share;
    if (lane == i) {
      expert = best.expert;
      weight = share;
    }
  }
  int rank = 0;
  for (int i = 0; i < shape.experts_per_row; ++i) {
    rank += __shfl_sync(~0U, expert, i) < expert ? 1 : 0;
  }
  if (lane >= shape.experts_per_row) return;
  const std::int64_t pair = row * shape.experts_per_row + rank;
  routed.experts[pair] = expert;
  routed.weights[pair] = normalised ? weight / sum_of_chosen : weight;
}

struct SortMemory {
  std::int32_t lesser[kWarp];  // pairs of earlier experts, by warp
  std::int32_t own[kWarp];
};

// One block for each expert: it counts the pairs of the experts before it, and gives its own pairs
// the next places, in their order. Each warp takes a run of neighbouring pairs.
__global__ void __launch_bounds__(kSortThreads) SortPairsKernel(RoutedPairs routed) {
  WaitForEarlierKernels();
  auto& memory = BlockShared<SortMemory>();
  const std::int64_t pairs = routed.shape.pairs();
  const std::int32_t expert = static_cast<std::int32_t>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t turns = (pairs + blockDim.x - 1) / blockDim.x;
  const std::int64_t begin = warp * turns * kWarp;
  const std::int64_t end = min(begin + turns * kWarp, pairs);

  std::int32_t lesser = 0;
  std::int32_t own = 0;
  for (std::int64_t from = begin; from < end; from += kWarp) {
    const bool exists = from + lane < end;
    const std::int32_t chosen = exists ? routed.experts[from + lane] : routed.shape.experts;
    lesser += __popc(__ballot_sync(~0U, chosen < expert));
    own += __popc(__ballot_sync(~0U, chosen == expert));
  }
  if (lane == 0) {
    memory.lesser[warp] = lesser;
    memory.own[warp] = own;
  }
  __syncthreads();
  std::int32_t first = 0;
  std::int32_t before = 0;  // pairs of this expert in the runs of earlier warps
  for (int i = 0; i < warps; ++i) {
    first += memory.lesser[i];
    if (i < warp) before += memory.own[i];
  }
  if (threadIdx.x == 0) {
    routed.first[expert] = first;
    if (expert == routed.shape.experts - 1) {
      routed.first[routed.shape.experts] = static_cast<std::int32_t>(pairs);
    }
  }

  std::int32_t place = first + before;
  for (std::int64_t from = begin; from < end; from += kWarp) {
    const std::int64_t pair = from + lane;
    const bool mine = pair < end && routed.experts[pair] == expert;
    const unsigned lanes = __ballot_sync(~0U, mine);
    if (mine) {
      const std::int32_t own_place = place + __popc(lanes & ((1U << lane) - 1));
      routed.places[pair] = own_place;
      routed.rows[own_place] = static_cast<std::int32_t>(pair / routed.shape.experts_per_row);
    }
    place += __popc(lanes);
  }
}

struct SharedRows {
  DeviceRows<const Bf16> x;
  const Bf16* gate = nullptr;  // null if there is no shared expert
  DeviceRows<const Bf16> output;
};

// The part of this thread in gate . x.
template <int kWidth>
__device__ __forceinline__ float PartOfProduct(const Bf16* gate, const Bf16* x,
                                               std::int64_t columns) {
  float sum = 0;
  for (std::int64_t column = std::int64_t{threadIdx.x} * kWidth; column < columns;
       column += std::int64_t{blockDim.x} * kWidth) {
    float factors[kWidth];
    float values[kWidth];
    LoadFloats<kWidth>(gate + column, factors);
    LoadFloats<kWidth>(x + column, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum = fmaf(factors[i], values[i], sum);
  }
  return sum;
}

template <int kWidth>
__device__ __forceinline__ void AddScaled(float factor, const Bf16* from, float (&sums)[kWidth]) {
  float values[kWidth];
  LoadFloats<kWidth>(from, values);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] = fmaf(factor, values[i], sums[i]);
}

// One block for each row. All of x is read before any of y is written.
template <int kWidth>
__global__ void __launch_bounds__(kSumThreads)
    SumExpertsKernel(DeviceRows<const Bf16> outputs, RoutedPairs routed, SharedRows shared,
                     DeviceRows<Bf16> y, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  const std::int64_t pair = row * routed.shape.experts_per_row;
  float gate = 0;
  if (shared.gate != nullptr) {
    const float z = BlockSum(PartOfProduct<kWidth>(shared.gate, shared.x.Row(row), columns));
    gate = 1 / (1 + expf(-z));
  }
  for (std::int64_t column = std::int64_t{threadIdx.x} * kWidth; column < columns;
       column += std::int64_t{blockDim.x} * kWidth) {
    float sums[kWidth] = {};
    for (int i = 0; i < routed.shape.experts_per_row; ++i) {
      const Bf16* const from = outputs.Row(routed.places[pair + i]) + column;
      AddScaled<kWidth>(routed.weights[pair + i], from, sums);
    }
    if (shared.gate != nullptr) AddScaled<kWidth>(gate, shared.output.Row(row) + column, sums);
    StoreRounded<kWidth>(sums, y.Row(row) + column);
  }
}

template <int kWidth>
void LaunchSum(StreamView stream, const DeviceMatrix& outputs, const RoutedPairs& routed,
               const SharedExpert& shared, const DeviceMatrix& y) {
  const LaunchShape packs = RowGrid(1, y.columns / kWidth, kSumThreads);
  SharedRows always;
  if (shared.output.rows > 0) {
    always = {RowsOf<const Bf16>(shared.x), shared.gate.As<const Bf16>(),
              RowsOf<const Bf16>(shared.output)};
  }
  Launch(stream, {dim3(static_cast<unsigned>(y.rows)), packs.threads}, "SumExperts",
         &SumExpertsKernel<kWidth>, RowsOf<const Bf16>(outputs), routed, always, RowsOf<Bf16>(y),
         y.columns);
}

constexpr std::int64_t kArrayAlignment = 16;

std::int64_t Aligned(std::int64_t bytes) {
  return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

}  // namespace

std::int64_t RoutingBytes(const RoutingShape& shape) {
  constexpr std::int64_t kByPair = 4;
  return kByPair * Aligned(shape.pairs() * std::int64_t{sizeof(std::int32_t)}) +
         Aligned((std::int64_t{shape.experts} + 1) * std::int64_t{sizeof(std::int32_t)});
}

RoutedPairs RoutedPairsAt(std::byte* base, const RoutingShape& shape) {
  RoutedPairs routed{.shape = shape};
  const auto take = [&](auto*& array, std::int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(base);
    base += Aligned(count * std::int64_t{sizeof(*array)});
  };
  take(routed.experts, shape.pairs());
  take(routed.weights, shape.pairs());
  take(routed.places, shape.pairs());
  take(routed.rows, shape.pairs());
  take(routed.first, std::int64_t{shape.experts} + 1);
  return routed;
}

void RouteRows(StreamView stream, DeviceMatrix logits, bool normalised, const RoutedPairs& routed) {
  const RoutingShape& shape = routed.shape;
  CHECK(logits.dtype == DType::kFp32 && logits.rows == shape.rows);
  CHECK(logits.columns == shape.experts && shape.experts_per_row <= shape.experts);
  CHECK(shape.experts_per_row >= 1 && shape.experts_per_row <= kExpertsPerRowMax);
  if (shape.rows == 0) return;
  const std::int64_t blocks = (shape.rows + kRowsPerBlock - 1) / kRowsPerBlock;
  Launch(stream, {dim3(static_cast<unsigned>(blocks)), kRowsPerBlock * kWarp}, "ChooseExperts",
         &ChooseExpertsKernel, RowsOf<float>(logits), routed, normalised);
  const LaunchShape lanes = RowGrid(1, shape.pairs(), kSortThreads);
  Launch(stream, {dim3(static_cast<unsigned>(shape.experts)), lanes.threads}, "SortPairs",
         &SortPairsKernel, routed);
}

void SumExperts(StreamView stream, DeviceMatrix outputs, const RoutedPairs& routed,
                const SharedExpert& shared, DeviceMatrix y) {
  CHECK(outputs.dtype == y.dtype && outputs.columns == y.columns);
  CHECK(y.rows == routed.shape.rows && outputs.rows == routed.shape.pairs());
  const bool has_shared = shared.output.rows > 0;
  if (has_shared) {
    for (const DeviceMatrix& matrix : {shared.x, shared.gate, shared.output}) {
      CHECK(matrix.dtype == y.dtype && matrix.columns == y.columns);
    }
    CHECK(shared.x.rows == y.rows && shared.output.rows == y.rows && shared.gate.rows == 1);
  }
  if (y.rows == 0) return;
  const bool packed =
      IsPacked(outputs) && IsPacked(y) &&
      (!has_shared || (IsPacked(shared.x) && IsPacked(shared.gate) && IsPacked(shared.output)));
  CHECK(y.dtype == DType::kBf16);
  const auto launch = packed ? &LaunchSum<kPackWidth<Bf16>> : &LaunchSum<1>;
  launch(stream, outputs, routed, shared, y);
}

}  // namespace twin::kernels::cuda
