#include "core/check.h"
#include "kernels/cuda/logit_row.cuh"
#include "kernels/cuda/top_logits.h"

namespace twin::kernels::cuda {
namespace {

// The highest rank below `limit` among the thread's own logits; 0 if there is none.
template <int kWidth>
__device__ Number HighestBelow(const LogitRow<kWidth>& row, Number limit) {
  Number highest = 0;
  row.ForEach([&](float logit, std::uint32_t token) {
    const Number rank = RankOf(OrderedBits(logit), token);
    if (rank < limit) highest = max(highest, rank);
  });
  return highest;
}

// Block x describes row x. Each thread knows the highest of its own logits that is not reported
// yet; the thread whose rank is the block's highest looks for its next one.
template <int kWidth>
__global__ void __launch_bounds__(kRowThreadsMax)
    TopLogitsKernel(DeviceRows<float> logits, int vocab, const SamplingParameters* parameters,
                    const std::int32_t* first, const std::int32_t* tokens, TopLogits* all) {
  WaitForEarlierKernels();
  const std::int32_t wanted = parameters[blockIdx.x].logprobs;
  if (wanted < 0) return;
  const LogitRow<kWidth> row{logits.Row(blockIdx.x), vocab};
  Number own = HighestBelow(row, ~Number{0});
  Number best = BlockMax(own);
  const float largest = LogitOf(best);
  Number weights[1] = {};
  row.ForEach([&](float logit, std::uint32_t) { weights[0] += WeightOf(logit, largest, 1.0F); });
  BlockReduce(weights, [](Number a, Number b) { return a + b; });
  TopLogits& to = all[blockIdx.x];
  const int count = min(wanted, min(kTopLogitsMax, vocab));
  if (threadIdx.x == 0) {
    to.weights = weights[0];
    to.largest = largest;
    to.chosen = row.logits[tokens[*first + static_cast<std::int32_t>(blockIdx.x)]];
    to.count = count;
  }
  for (int i = 0; i < count; ++i) {
    if (threadIdx.x == 0) to.top[i] = {TokenOf(best), LogitOf(best)};
    if (own == best) own = HighestBelow(row, best);
    best = BlockMax(own);
  }
}

}  // namespace

void FindTopLogits(StreamView stream, DeviceMatrix logits, const SamplingParameters* parameters,
                   const std::int32_t* first, const std::int32_t* tokens, TopLogits* to) {
  CHECK(logits.dtype == DType::kFp32 && logits.columns >= 1);
  CHECK(logits.columns <= (std::int64_t{1} << 23));  // sums of weights fit
  if (logits.rows == 0) return;
  const LaunchShape shape{dim3(static_cast<unsigned>(logits.rows)), ThreadsOfRow(logits.columns)};
  const auto kernel = IsPacked(logits) ? &TopLogitsKernel<kPackWidth<float>> : &TopLogitsKernel<1>;
  Launch(stream, shape, "FindTopLogits", kernel, RowsOf<float>(logits),
         static_cast<int>(logits.columns), parameters, first, tokens, to);
}

}  // namespace twin::kernels::cuda
