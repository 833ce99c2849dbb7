#include "core/hash.h"
#include "kernels/cuda/logit_row.cuh"
#include "kernels/cuda/sampling.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kDigitBits = 3;
constexpr int kPivots = (1 << kDigitBits) - 1;
static_assert(kPivots <= kReducedMax);
// The distance, in values, from the largest value to the first of the pivots; each further pivot
// doubles it.
constexpr int kNearBits = 19;
constexpr unsigned kListMax = 1024;

struct Selected {
  std::uint32_t value = 0;
  Number above = 0;  // sum of the amounts of larger values
  Number at = 0;     // sum of the amounts of this value
};

// The values that the selected one is among: `low` to `last`, fewer than 2^bits.
struct ValueRange {
  std::uint32_t low = 0;
  std::uint32_t last = 0;
  int bits = 32;
  Number above = 0;    // sum of the amounts of values > last
  Number reached = 0;  // of values >= low; 0 if not known
};

// Candidates within a range, listed when there are few; in any order, because sums of integers do
// not depend on it.
struct CandidateList {
  Number ranks[kListMax];
  unsigned count;  // above kListMax: there are more
};

// Sums the amounts above pivots at distances of 2^kNearBits, twice that, ... below the largest
// value, because what is selected mostly lies near it.
template <int kWidth, class Measure>
__device__ ValueRange NearestRange(const LogitRow<kWidth>& row, std::uint32_t largest,
                                   Number target, const Measure& measure) {
  Number sums[kPivots] = {};
  row.ForEach([&](float logit, std::uint32_t token) {
    std::uint32_t value = 0;
    Number amount = 0;
    measure(logit, token, value, amount);
    const std::uint32_t distance = (largest - value) >> kNearBits;
#pragma unroll
    for (int d = 0; d < kPivots; ++d) {
      if (distance >> d == 0) sums[d] += amount;
    }
  });
  BlockReduce(sums, [](Number a, Number b) { return a + b; });
  ValueRange range{.last = largest};
#pragma unroll
  for (int d = 0; d < kPivots; ++d) {
    const std::uint32_t width = 1U << (kNearBits + d);
    if (range.bits < 32 || largest < width - 1) continue;
    if (sums[d] < target) {
      range.above = sums[d];
      range.last = largest - width;
    } else {
      range.low = largest - (width - 1);
      range.bits = d == 0 ? kNearBits : kNearBits + d - 1;
      range.reached = sums[d];
    }
  }
  return range;
}

// Weighted radix select: the largest value v such that the amounts of all values >= v sum to at
// least `target`. Each pass sums the amounts above seven pivots and thereby determines a digit of
// v. As soon as few candidates are in question, they are listed, and passes read the list.
// measure(logit, token, value, amount) sets the value and the amount of a candidate. REQUIRES: 1 <=
// target <= the sum of all amounts; no value is above `largest`.
template <int kWidth, class Measure>
__device__ Selected Select(const LogitRow<kWidth>& row, std::uint32_t largest, Number target,
                           const Measure& measure) {
  auto& list = BlockShared<CandidateList>();
  ValueRange range = NearestRange(row, largest, target, measure);
  unsigned listed = 0;  // 0: there is no list
  while (range.bits > 0) {
    const int shift = max(range.bits - kDigitBits, 0);
    const bool lists = listed == 0;
    Number sums[kPivots] = {};
    const auto add = [&](float logit, std::uint32_t token) {
      std::uint32_t value = 0;
      Number amount = 0;
      measure(logit, token, value, amount);
      if (amount == 0 || value - range.low > range.last - range.low) return;
      if (lists && *static_cast<volatile unsigned*>(&list.count) <= kListMax) {
        const unsigned place = atomicAdd(&list.count, 1U);
        if (place < kListMax) list.ranks[place] = RankOf(OrderedBits(logit), token);
      }
      const std::uint32_t digit = (value - range.low) >> shift;
#pragma unroll
      for (int d = 0; d < kPivots; ++d) {
        if (digit > static_cast<std::uint32_t>(d)) sums[d] += amount;
      }
    };
    if (lists) {
      __syncthreads();
      if (threadIdx.x == 0) list.count = 0;
      __syncthreads();
      row.ForEach(add);
    } else {
      for (unsigned i = threadIdx.x; i < listed; i += blockDim.x) {
        add(LogitOf(list.ranks[i]), static_cast<std::uint32_t>(TokenOf(list.ranks[i])));
      }
    }
    BlockReduce(sums, [](Number a, Number b) { return a + b; });
    if (lists && list.count <= kListMax) listed = list.count;
    int digit = 0;
    Number higher = sums[0];
#pragma unroll
    for (int d = 0; d < kPivots; ++d) {
      if (range.above + sums[d] < target) continue;
      digit = d + 1;
      range.reached = range.above + sums[d];
      higher = d + 1 < kPivots ? sums[d + 1] : 0;
    }
    range.above += higher;
    range.low += static_cast<std::uint32_t>(digit) << shift;
    range.last = min(range.last, range.low + ((1U << shift) - 1));
    range.bits = shift;
  }
  return {range.low, range.above, range.reached - range.above};
}

// Among the candidates of rank `lowest` or higher, in descending order: the rank of the candidate
// at which the sum of the amounts reaches `target`. Its amount_of(logit) is positive.
template <int kWidth, class Amount>
__device__ Number CutAt(const LogitRow<kWidth>& row, std::uint32_t largest, Number lowest,
                        Number target, const Amount& amount_of) {
  const Selected selected =
      Select(row, largest, target,
             [&](float logit, std::uint32_t token, std::uint32_t& value, Number& amount) {
               value = OrderedBits(logit);
               amount = RankOf(value, token) >= lowest ? amount_of(logit) : 0;
             });
  const Number each = amount_of(FloatOfOrdered(selected.value));
  const Number needed = (target - selected.above + each - 1) / each;
  if (needed * each >= selected.at) {  // all candidates of equal value
    const Number first = static_cast<Number>(selected.value) << 32;
    return first > lowest ? first : lowest;
  }
  const Selected last =
      Select(row, ~0U, needed,
             [&](float logit, std::uint32_t token, std::uint32_t& value, Number& amount) {
               value = ~token;
               amount = OrderedBits(logit) == selected.value ? 1 : 0;
             });
  return (static_cast<Number>(selected.value) << 32) | last.value;
}

// OrderedBits of the largest logit; 0 if all logits are NaN.
template <int kWidth>
__device__ std::uint32_t LargestOf(const LogitRow<kWidth>& row) {
  Number largest_rank = 0;
  row.ForEachAhead([&](float logit, std::uint32_t token) {
    largest_rank = max(largest_rank, RankOf(OrderedBits(logit), token));
  });
  return OrderedOf(BlockMax(largest_rank));
}

// The first rank of the lowest logit whose weight reaches `share` of the largest one's.
template <int kWidth>
__device__ Number CutOfShare(const LogitRow<kWidth>& row, float share, float largest,
                             float sharpness) {
  const Number enough = CeilShare(share, kLargestWeight);
  Number inverted = 0;  // the largest ~OrderedBits among these logits
  row.ForEach([&](float logit, std::uint32_t) {
    if (WeightOf(logit, largest, sharpness) < enough) return;
    inverted = max(inverted, static_cast<Number>(~OrderedBits(logit)));
  });
  return static_cast<Number>(~static_cast<std::uint32_t>(BlockMax(inverted))) << 32;
}

// The lowest rank that min_p, top_k and top_p keep.
template <int kWidth>
__device__ Number CutOf(const LogitRow<kWidth>& row, const SamplingParameters& parameters,
                        float sharpness) {
  const bool counts = parameters.top_k > 0 && parameters.top_k < row.size;
  const bool weighs = parameters.top_p < 1;
  if (!counts && !weighs && !(parameters.min_p > 0)) return 0;
  Number cut = 0;
  const std::uint32_t ordered = LargestOf(row);
  if (counts) {
    cut = CutAt(row, ordered, 0, static_cast<Number>(parameters.top_k),
                [](float) { return Number{1}; });
  }
  if (ordered == 0) return cut;
  const float largest = FloatOfOrdered(ordered);
  if (parameters.min_p > 0) {
    cut = max(cut, CutOfShare(row, parameters.min_p, largest, sharpness));
  }
  if (!weighs) return cut;
  Number total[1] = {};
  row.ForEach([&](float logit, std::uint32_t token) {
    if (RankOf(OrderedBits(logit), token) < cut) return;
    total[0] += WeightOf(logit, largest, sharpness);
  });
  BlockReduce(total, [](Number a, Number b) { return a + b; });
  return CutAt(row, ordered, cut, CeilShare(parameters.top_p, total[0]),
               [&](float logit) -> Number { return WeightOf(logit, largest, sharpness); });
}

struct HiddenLogits {
  float logits[kMaskedTokensMax];
};

// Makes the row's masked logits NaN in memory, which no choice takes. A question for each logit
// would instead cost registers, which every row would pay for.
__device__ __forceinline__ void HideMasked(const SamplingParameters& parameters, float* logits) {
  if (parameters.position >= parameters.unmasked_from) return;
  if (threadIdx.x < static_cast<unsigned>(parameters.masked_count)) {
    float& logit = logits[parameters.masked[threadIdx.x]];
    BlockShared<HiddenLogits>().logits[threadIdx.x] = logit;
    logit = FloatOfBits(0x7FC00000U);
  }
  __syncthreads();
}

// REQUIRES: all threads have read the row.
__device__ __forceinline__ void ShowMasked(const SamplingParameters& parameters, float* logits) {
  if (parameters.position >= parameters.unmasked_from) return;
  if (threadIdx.x >= static_cast<unsigned>(parameters.masked_count)) return;
  logits[parameters.masked[threadIdx.x]] = BlockShared<HiddenLogits>().logits[threadIdx.x];
}

// Block x chooses the token of row x.
template <int kWidth>
__global__ void __launch_bounds__(kRowThreadsMax)
    SampleKernel(DeviceRows<float> logits, int vocab, const SamplingParameters* all,
                 const std::int32_t* first, std::int32_t* tokens) {
  WaitForEarlierKernels();
  const SamplingParameters parameters = all[blockIdx.x];
  HideMasked(all[blockIdx.x], logits.Row(blockIdx.x));
  const LogitRow<kWidth> row{logits.Row(blockIdx.x), vocab};
  Number best = 0;
  if (parameters.temperature == 0 || parameters.top_k == 1) {
    row.ForEachAhead([&](float logit, std::uint32_t token) {
      best = max(best, RankOf(OrderedBits(logit), token));
    });
  } else {
    const GumbelRow gumbel =
        GumbelRowOf(MixWords(parameters.seed, parameters.position), parameters.temperature);
    const Number cut = CutOf(row, parameters, gumbel.sharpness);
    row.ForEach([&](float logit, std::uint32_t token) {
      if (RankOf(OrderedBits(logit), token) < cut) return;
      best = max(best, RankOf(OrderedBits(GumbelScore(gumbel, logit, token)), token));
    });
  }
  best = BlockMax(best);
  ShowMasked(all[blockIdx.x], logits.Row(blockIdx.x));
  if (threadIdx.x == 0) tokens[*first + static_cast<std::int32_t>(blockIdx.x)] = TokenOf(best);
}

}  // namespace

void SampleTokens(StreamView stream, DeviceMatrix logits, const SamplingParameters* parameters,
                  const std::int32_t* first, std::int32_t* tokens) {
  CHECK(logits.dtype == DType::kFp32 && logits.columns >= 1);
  CHECK(logits.columns <= (std::int64_t{1} << 23));  // sums of weights fit
  if (logits.rows == 0) return;
  const auto vocab = static_cast<int>(logits.columns);
  const LaunchShape shape{dim3(static_cast<unsigned>(logits.rows)), ThreadsOfRow(logits.columns)};
  if (IsPacked(logits)) {
    Launch(stream, shape, "SampleTokens", &SampleKernel<kPackWidth<float>>, RowsOf<float>(logits),
           vocab, parameters, first, tokens);
  } else {
    Launch(stream, shape, "SampleTokens", &SampleKernel<1>, RowsOf<float>(logits), vocab,
           parameters, first, tokens);
  }
}

}  // namespace twin::kernels::cuda
