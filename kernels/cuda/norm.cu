#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreadsMax = 1024;
constexpr int kAddThreads = 256;
// Up to this number of threads, a short row gets one thread per pack instead of several packs per
// thread.
constexpr std::int64_t kThreadsWanted = 256;

// With four packs per thread, the registers do not suffice for kThreadsMax threads.
constexpr int ThreadsMax(int kept) { return kept > 2 ? kThreadsMax / 2 : kThreadsMax; }

struct Summand {
  DeviceRows<const Bf16> delta;
  const float* bias = nullptr;
  float scale = 1;
};

// The operands of a residual addition, as loaded from memory.
template <int kWidth>
struct Terms {
  Pack<Bf16, kWidth> delta;
  Pack<Bf16, kWidth> residual;
};

template <int kWidth>
__device__ __forceinline__ Terms<kWidth> LoadTerms(const Summand& summand, std::int64_t row,
                                                   std::int64_t column, const Bf16* place) {
  return {Load<kWidth>(summand.delta.Row(row) + column), Load<kWidth>(place)};
}

// Computes and stores residual + scale * (delta + bias). `values` gets the rounded result.
template <int kWidth>
__device__ __forceinline__ void AddTerms(const Summand& summand, const Terms<kWidth>& terms,
                                         std::int64_t column, Bf16* place,
                                         float (&values)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = ToFloat(terms.delta.values[i]);
  if (summand.bias != nullptr) {
    float bias[kWidth];
    LoadFloats<kWidth>(summand.bias + column, bias);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += bias[i];
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float residual = ToFloat(terms.residual.values[i]);
    values[i] = ToFloat(Rounded<Bf16>(residual + summand.scale * values[i]));
  }
  StoreRounded<kWidth>(values, place);
}

struct NormArguments {
  NormKind kind{};
  const float* gain = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
  std::int64_t packs = 0;  // of a row
  std::int64_t columns = 0;
  DeviceRows<Bf16> x;  // with kAdds: the residual
  Summand summand;
  DeviceRows<Bf16> y;
};

// The packs of a row that belong to one thread. kKept of them stay in registers; with kKept = 0,
// each pass reads them from memory again.
template <int kWidth, int kKept, bool kAdds>
class RowOfThread {
 public:
  __device__ __forceinline__ RowOfThread(const NormArguments& arguments, std::int64_t row)
      : arguments_(arguments), row_(row) {
    if constexpr (kAdds) {
      AddAll();
    } else {
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        if (Number(k) < arguments_.packs) Read(Number(k), kept_[k]);
      }
    }
  }

  // Calls body(column, values) for each pack of the thread.
  template <class Body>
  __device__ __forceinline__ void ForEach(const Body& body) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      if (Number(k) < arguments_.packs) body(Number(k) * kWidth, kept_[k]);
    }
    if constexpr (kKept == 0) {
      for (std::int64_t p = threadIdx.x; p < arguments_.packs; p += blockDim.x) {
        float values[kWidth];
        Read(p, values);
        body(p * kWidth, values);
      }
    }
  }

 private:
  // Index in the row of the thread's k-th pack.
  __device__ __forceinline__ std::int64_t Number(int k) const {
    return threadIdx.x + std::int64_t{k} * blockDim.x;
  }
  __device__ __forceinline__ Bf16* Place(std::int64_t pack) const {
    return arguments_.x.Row(row_) + pack * kWidth;
  }
  __device__ __forceinline__ void Read(std::int64_t pack, float (&values)[kWidth]) const {
    LoadFloats<kWidth>(static_cast<const Bf16*>(Place(pack)), values);
  }
  __device__ __forceinline__ Terms<kWidth> TermsOf(std::int64_t pack) const {
    return LoadTerms<kWidth>(arguments_.summand, row_, pack * kWidth, Place(pack));
  }

  __device__ __forceinline__ void AddAll() {
    if constexpr (kKept > 0) {
      // Load all packs before the first store: the compiler does not move loads ahead of stores.
      Terms<kWidth> terms[kKept];
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        if (Number(k) < arguments_.packs) terms[k] = TermsOf(Number(k));
      }
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        if (Number(k) < arguments_.packs) Add(Number(k), terms[k], kept_[k]);
      }
    } else {
      float values[kWidth];
      for (std::int64_t p = threadIdx.x; p < arguments_.packs; p += blockDim.x) {
        Add(p, TermsOf(p), values);
      }
    }
  }
  __device__ __forceinline__ void Add(std::int64_t pack, const Terms<kWidth>& terms,
                                      float (&values)[kWidth]) const {
    AddTerms<kWidth>(arguments_.summand, terms, pack * kWidth, Place(pack), values);
  }

  const NormArguments& arguments_;
  std::int64_t row_;
  float kept_[kKept > 0 ? kKept : 1][kWidth];
};

template <int kWidth, int kKept, bool kAdds>
__global__ void __launch_bounds__(ThreadsMax(kKept)) NormKernel(NormArguments arguments) {
  if (blockIdx.x == 0) {
    FetchToCache(arguments.gain, arguments.columns);
    FetchToCache(arguments.bias, arguments.columns);
  }
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  RowOfThread<kWidth, kKept, kAdds> mine(arguments, row);
  const auto columns = static_cast<float>(arguments.columns);
  float mean = 0;
  if (arguments.kind == NormKind::kLayerNorm) {
    float sum = 0;
    mine.ForEach([&](std::int64_t, const float(&values)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum += values[i];
    });
    mean = BlockSum(sum) / columns;
  }
  float squares = 0;
  mine.ForEach([&](std::int64_t, const float(&values)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (values[i] - mean) * (values[i] - mean);
  });
  const float factor = rsqrtf(BlockSum(squares) / columns + arguments.epsilon);
  mine.ForEach([&](std::int64_t column, const float(&values)[kWidth]) {
    float gain[kWidth];
    LoadFloats<kWidth>(arguments.gain + column, gain);
    float result[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) result[i] = (values[i] - mean) * factor * gain[i];
    if (arguments.bias != nullptr) {
      float bias[kWidth];
      LoadFloats<kWidth>(arguments.bias + column, bias);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) result[i] += bias[i];
    }
    StoreRounded<kWidth>(result, arguments.y.Row(row) + column);
  });
}

template <int kWidth>
__global__ void __launch_bounds__(kAddThreads)
    AddKernel(Summand summand, DeviceRows<Bf16> residual, std::int64_t rows, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float values[kWidth];
    Bf16* place = residual.Row(row) + column;
    AddTerms<kWidth>(summand, LoadTerms<kWidth>(summand, row, column, place), column, place,
                     values);
  }
}

Summand SummandOf(const DeviceSummand& summand) {
  return {RowsOf<const Bf16>(summand.delta), summand.bias, summand.scale};
}

bool TakesPacks(const DeviceSummand& summand) {
  return IsPacked(summand.delta) && IsPacked(summand.bias);
}

bool SameShape(const DeviceMatrix& a, const DeviceMatrix& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.columns == b.columns;
}

template <int kWidth, bool kAdds>
void LaunchNorm(StreamView stream, NormArguments arguments, std::int64_t rows) {
  arguments.packs = arguments.columns / kWidth;
  const std::int64_t packs = arguments.packs;
  // One pack per thread up to 256 threads, then up to four packs per thread, then more threads.
  std::int64_t threads = std::max(std::min(packs, kThreadsWanted), (packs + 3) / 4);
  threads = std::min<std::int64_t>((threads + kWarp - 1) / kWarp * kWarp, kThreadsMax);
  const LaunchShape shape{dim3(static_cast<unsigned>(rows)), static_cast<int>(threads)};
  const char* what = kAdds ? "AddNormalize" : "Normalize";
  if constexpr (kWidth == 1) {
    Launch(stream, shape, what, &NormKernel<1, 0, kAdds>, arguments);
  } else if (packs <= threads) {
    Launch(stream, shape, what, &NormKernel<kWidth, 1, kAdds>, arguments);
  } else if (packs <= 2 * threads) {
    Launch(stream, shape, what, &NormKernel<kWidth, 2, kAdds>, arguments);
  } else if (packs <= 4 * threads && threads <= ThreadsMax(4)) {
    Launch(stream, shape, what, &NormKernel<kWidth, 4, kAdds>, arguments);
  } else {
    Launch(stream, shape, what, &NormKernel<kWidth, 0, kAdds>, arguments);
  }
}

template <bool kAdds>
void Norm(StreamView stream, const DeviceSummand& summand, const DeviceNorm& norm,
          const DeviceMatrix& x, const DeviceMatrix& y) {
  CHECK(SameShape(x, y) && norm.gain != nullptr);
  CHECK(norm.bias == nullptr || norm.kind == NormKind::kLayerNorm);
  if (x.rows == 0 || x.columns == 0) return;
  CHECK(x.dtype == DType::kBf16);
  const NormArguments arguments{.kind = norm.kind,
                                .gain = norm.gain,
                                .bias = norm.bias,
                                .epsilon = norm.epsilon,
                                .columns = x.columns,
                                .x = RowsOf<Bf16>(x),
                                .summand = SummandOf(summand),
                                .y = RowsOf<Bf16>(y)};
  if (IsPacked(x) && IsPacked(y) && (!kAdds || TakesPacks(summand)) && IsPacked(norm.gain) &&
      IsPacked(norm.bias)) {
    LaunchNorm<kPackWidth<Bf16>, kAdds>(stream, arguments, x.rows);
  } else {
    LaunchNorm<1, kAdds>(stream, arguments, x.rows);
  }
}

}  // namespace

void Normalize(StreamView stream, DeviceMatrix x, const DeviceNorm& norm, DeviceMatrix y) {
  Norm<false>(stream, {}, norm, x, y);
}

void AddNormalize(StreamView stream, const DeviceSummand& summand, const DeviceNorm& norm,
                  DeviceMatrix residual, DeviceMatrix y) {
  CHECK(SameShape(summand.delta, residual));
  Norm<true>(stream, summand, norm, residual, y);
}

void Add(StreamView stream, const DeviceSummand& summand, DeviceMatrix residual) {
  CHECK(SameShape(summand.delta, residual));
  if (residual.rows == 0 || residual.columns == 0) return;
  CHECK(residual.dtype == DType::kBf16);
  constexpr int kWidth = kPackWidth<Bf16>;
  const std::int64_t rows = residual.rows;
  const std::int64_t columns = residual.columns;
  if (IsPacked(residual) && TakesPacks(summand)) {
    Launch(stream, RowGrid(rows, columns / kWidth, kAddThreads), "Add", &AddKernel<kWidth>,
           SummandOf(summand), RowsOf<Bf16>(residual), rows, columns);
  } else {
    Launch(stream, RowGrid(rows, columns, kAddThreads), "Add", &AddKernel<1>, SummandOf(summand),
           RowsOf<Bf16>(residual), rows, columns);
  }
}

}  // namespace twin::kernels::cuda
