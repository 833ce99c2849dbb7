#include <type_traits>

#include "kernels/cuda/gemv.h"
#include "kernels/cuda/skinny_tile.cuh"

namespace twin::kernels::cuda {
namespace {

// The number of outputs of a block. The 4,096 outputs of Llama-3-8B's smaller products take 1.94
// waves of blocks on 132 multiprocessors with one or two tokens, and with more than four tokens;
// with three or four, 1.55.
constexpr int OutputsOf(int tokens) { return tokens <= 2 ? 2 : kSkinnyOutputs; }
constexpr int BlocksOf(int tokens) { return tokens <= 2 ? 8 : tokens <= 4 ? 5 : 4; }

// Kernels for at least this many tokens also serve fewer; kernels for less serve exactly their
// number.
constexpr int kTokensMax = static_cast<int>(kSkinnyRows);

// The rows of x. Rows after the last one repeat the last one.
template <int kTokens>
struct SkinnyInputs {
  DeviceRows<const Bf16> x;
  std::int64_t last = 0;

  __device__ __forceinline__ const Bf16* Row(std::int64_t i) const {
    return x.Row(kTokens == kTokensMax ? min(i, last) : i);
  }
};

template <class Out, int kTokens>
__global__ void __launch_bounds__(kSkinnyThreads, BlocksOf(kTokens))
    SkinnyGemmKernel(DeviceRows<const Bf16> x, std::int64_t tokens, DeviceRows<const Bf16> w,
                     DeviceRows<Out> y, std::int64_t outputs, std::int64_t inputs) {
  constexpr int kOutputs = OutputsOf(kTokens);
  const std::int64_t first = std::int64_t{blockIdx.x} * kOutputs;
  const Bf16* rows[kOutputs];
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) rows[n] = w.Row(min(first + n, outputs - 1));

  float sums[kOutputs][kTokens] = {};
  const auto begin = [&] {
    WaitForEarlierKernels();  // after the first loads of weights, which no kernel writes
    return SkinnyInputs<kTokens>{x, tokens - 1};
  };
  AccumulateSkinny<kPackWidth<Bf16>>(rows, inputs, begin, sums);

  WriteBlockSums<kSkinnyWarps>(sums, [&](int n, int t, float sum) {
    if (first + n < outputs && (kTokens < kTokensMax || t < tokens))
      y.Row(t)[first + n] = Rounded<Out>(sum);
  });
}

template <class Out>
void Multiply(StreamView stream, const DeviceMatrix& x, const DeviceMatrix& w,
              const DeviceMatrix& y) {
  const auto launch = [&]<int kTokens>(std::integral_constant<int, kTokens>) {
    constexpr int kOutputs = OutputsOf(kTokens);
    const LaunchShape shape{dim3(static_cast<unsigned>((w.rows + kOutputs - 1) / kOutputs)),
                            kSkinnyThreads};
    Launch(stream, shape, "SkinnyGemm", &SkinnyGemmKernel<Out, kTokens>, RowsOf<const Bf16>(x),
           x.rows, RowsOf<const Bf16>(w), RowsOf<Out>(y), w.rows, w.columns);
  };
  switch (x.rows) {
    case 1:
      return launch(std::integral_constant<int, 1>{});
    case 2:
      return launch(std::integral_constant<int, 2>{});
    case 3:
      return launch(std::integral_constant<int, 3>{});
    case 4:
      return launch(std::integral_constant<int, 4>{});
    default:
      return launch(std::integral_constant<int, kTokensMax>{});
  }
}

}  // namespace

bool TakesSkinnyGemm(const DeviceMatrix& x, const DeviceMatrix& w, const DeviceMatrix& y) {
  const bool formats = x.dtype == DType::kBf16 && w.dtype == x.dtype &&
                       (y.dtype == x.dtype || y.dtype == DType::kFp32);
  return formats && x.rows >= 1 && x.rows <= kSkinnyRows && IsPacked(x) && IsPacked(w) &&
         w.rows >= 1;
}

void SkinnyGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y) {
  CHECK(TakesSkinnyGemm(x, w, y));
  CHECK(x.columns == w.columns && y.columns == w.rows && y.rows == x.rows);
  if (y.dtype == DType::kFp32) {
    Multiply<float>(stream, x, w, y);
  } else {
    Multiply<Bf16>(stream, x, w, y);
  }
}

}  // namespace twin::kernels::cuda
