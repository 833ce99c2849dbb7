#include "kernels/cuda/gemv.h"
#include "kernels/cuda/skinny_tile.cuh"

namespace twin::kernels::cuda {
namespace {

template <class T, class Out, int kTokens>
__global__ void __launch_bounds__(kSkinnyThreads, 5)
    SkinnyGemmKernel(DeviceRows<const T> x, DeviceRows<const T> w, DeviceRows<Out> y,
                     std::int64_t outputs, std::int64_t inputs) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kSkinnyOutputs;
  const T* rows[kSkinnyOutputs];
#pragma unroll
  for (int n = 0; n < kSkinnyOutputs; ++n) rows[n] = w.Row(min(first + n, outputs - 1));

  float sums[kSkinnyOutputs][kTokens] = {};
  const auto begin = [&] {
    WaitForEarlierKernels();  // behind the first loads of weights: no kernel writes these
    return x;
  };
  AccumulateSkinny<kPackWidth<T>>(rows, inputs, begin, sums);

  WriteBlockSums<kSkinnyWarps>(sums, [&](int n, int t, float sum) {
    if (first + n < outputs) y.Row(t)[first + n] = Rounded<Out>(sum);
  });
}

template <class T, class Out>
void Multiply(StreamView stream, const DeviceMatrix& x, const DeviceMatrix& w,
              const DeviceMatrix& y) {
  const LaunchShape shape{
      dim3(static_cast<unsigned>((w.rows + kSkinnyOutputs - 1) / kSkinnyOutputs)), kSkinnyThreads};
  const auto launch = [&](auto kernel) {
    Launch(stream, shape, "SkinnyGemm", kernel, RowsOf<const T>(x), RowsOf<const T>(w),
           RowsOf<Out>(y), w.rows, w.columns);
  };
  switch (x.rows) {
    case 1:
      return launch(&SkinnyGemmKernel<T, Out, 1>);
    case 2:
      return launch(&SkinnyGemmKernel<T, Out, 2>);
    case 3:
      return launch(&SkinnyGemmKernel<T, Out, 3>);
    default:
      return launch(&SkinnyGemmKernel<T, Out, 4>);
  }
}

}  // namespace

bool TakesSkinnyGemm(const DeviceMatrix& x, const DeviceMatrix& w, const DeviceMatrix& y) {
  const bool formats = x.dtype == w.dtype && ByteSize(x.dtype) == 2 &&
                       (y.dtype == x.dtype || y.dtype == DType::kFp32);
  return formats && x.rows >= 1 && x.rows <= kSkinnyRows && IsPacked(x) && IsPacked(w) &&
         w.rows >= 1;
}

void SkinnyGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y) {
  CHECK(TakesSkinnyGemm(x, w, y));
  CHECK(x.columns == w.columns && y.columns == w.rows && y.rows == x.rows);
  WithElement16(x.dtype, [&]<class T>(T) {
    if (y.dtype == DType::kFp32) {
      Multiply<T, float>(stream, x, w, y);
    } else {
      Multiply<T, T>(stream, x, w, y);
    }
  });
}

}  // namespace twin::kernels::cuda
