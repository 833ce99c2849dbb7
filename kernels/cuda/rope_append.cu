#include <bit>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rope_append.h"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kHeadDimMax = 512;

struct Arguments {
  DeviceRows<Bf16> qkv;
  const std::int32_t* positions = nullptr;
  const std::int32_t* slots = nullptr;
  RopeAppendOptions options;
  std::int64_t tokens = 0;
  std::int64_t head_dim = 0;
  std::int64_t half = 0;  // elements i and i + half are rotated together; the rest are not
  int lanes = 0;          // lanes per head; a power of two
  // The cache: elements from the start of a block of the layer, and strides in elements.
  Bf16* keys = nullptr;
  std::int64_t values_offset = 0;
  std::int64_t block_stride = 0;
  std::int64_t block_size = 0;
};

// One head of one token, processed by `lanes` lanes.
template <int kWidth>
class Head {
 public:
  __device__ __forceinline__ Head(const Arguments& arguments, std::int64_t token, std::int64_t head,
                                  int lane)
      : arguments_(arguments), head_(head), lane_(lane) {
    const std::int64_t first = head * arguments.head_dim;
    from_ = arguments.qkv.Row(token) + first;
    bias_ = arguments.options.bias == nullptr ? nullptr : arguments.options.bias + first;
  }

  [[nodiscard]] __device__ __forceinline__ bool IsQuery() const {
    return head_ < arguments_.options.heads;
  }
  [[nodiscard]] __device__ __forceinline__ bool IsValue() const {
    return head_ >= arguments_.options.heads + arguments_.options.kv_heads;
  }
  [[nodiscard]] __device__ __forceinline__ const float* Gain() const {
    if (IsValue()) return nullptr;
    return IsQuery() ? arguments_.options.query_gain : arguments_.options.key_gain;
  }

  // Sum of the squares of this lane's elements.
  __device__ __forceinline__ float SquareSum() const {
    float sum = 0;
    const auto add = [&](std::int64_t i) {
      float values[kWidth];
      Read(i, 1, nullptr, values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += values[j] * values[j];
    };
    for (std::int64_t i = lane_ * kWidth; i < arguments_.half; i += arguments_.lanes * kWidth) {
      add(i);
      add(i + arguments_.half);
    }
    for (std::int64_t i = 2 * arguments_.half + lane_ * kWidth; i < arguments_.head_dim;
         i += arguments_.lanes * kWidth) {
      add(i);
    }
    return sum;
  }

  // Writes this lane's elements to `to`, and if `keeps` also to where they were read. `turn`:
  // cosines, then sines; or null.
  __device__ __forceinline__ void Write(float factor, const float* gain, const float* turn,
                                        Bf16* to, bool keeps) const {
    const std::int64_t half = arguments_.half;
    for (std::int64_t i = lane_ * kWidth; i < half; i += arguments_.lanes * kWidth) {
      float low[kWidth];
      float high[kWidth];
      Read(i, factor, gain, low);
      Read(i + half, factor, gain, high);
      if (turn != nullptr) Turn(turn + i, turn + half + i, low, high);
      StoreRounded<kWidth>(low, to + i);
      StoreRounded<kWidth>(high, to + i + half);
      if (keeps) {
        StoreRounded<kWidth>(low, from_ + i);
        StoreRounded<kWidth>(high, from_ + i + half);
      }
    }
    for (std::int64_t i = 2 * half + lane_ * kWidth; i < arguments_.head_dim;
         i += arguments_.lanes * kWidth) {
      float values[kWidth];
      Read(i, factor, gain, values);
      StoreRounded<kWidth>(values, to + i);
      if (keeps) StoreRounded<kWidth>(values, from_ + i);
    }
  }

  // True if keys or values are wanted in qkv as well and differ from the values that are there.
  [[nodiscard]] __device__ __forceinline__ bool Keeps() const {
    return arguments_.options.keeps_keys && !IsQuery() && (!IsValue() || bias_ != nullptr);
  }

  // The destination of queries, and of the keys and values of a slot. Padding tokens have no slot:
  // null if nothing of them is wanted.
  [[nodiscard]] __device__ __forceinline__ Bf16* Place(std::int32_t slot) const {
    if (IsQuery()) return from_;
    if (slot < 0) return Keeps() ? from_ : nullptr;
    const std::int64_t kv_head = head_ - arguments_.options.heads -
                                 (IsValue() ? arguments_.options.kv_heads : std::int64_t{0});
    const std::int64_t block = slot / static_cast<std::int32_t>(arguments_.block_size);
    const std::int64_t place = slot % static_cast<std::int32_t>(arguments_.block_size);
    return arguments_.keys + block * arguments_.block_stride +
           (IsValue() ? arguments_.values_offset : std::int64_t{0}) +
           (kv_head * arguments_.block_size + place) * arguments_.head_dim;
  }

 private:
  __device__ __forceinline__ void Read(std::int64_t i, float factor, const float* gain,
                                       float (&values)[kWidth]) const {
    LoadFloats<kWidth>(static_cast<const Bf16*>(from_ + i), values);
    if (bias_ != nullptr) {
      float bias[kWidth];
      LoadFloats<kWidth>(bias_ + i, bias);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) values[j] += bias[j];
    }
    if (gain != nullptr) {
      float gains[kWidth];
      LoadFloats<kWidth>(gain + i, gains);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) values[j] = values[j] * factor * gains[j];
    }
  }

  __device__ __forceinline__ static void Turn(const float* cosines, const float* sines,
                                              float (&low)[kWidth], float (&high)[kWidth]) {
    float cosine[kWidth];
    float sine[kWidth];
    LoadFloats<kWidth>(cosines, cosine);
    LoadFloats<kWidth>(sines, sine);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float turned = low[j] * cosine[j] - high[j] * sine[j];
      high[j] = high[j] * cosine[j] + low[j] * sine[j];
      low[j] = turned;
    }
  }

  const Arguments& arguments_;
  std::int64_t head_;
  std::int64_t lane_;
  Bf16* from_;
  const float* bias_;
};

template <int kWidth>
__global__ void __launch_bounds__(kThreads) RopeAppendKernel(Arguments arguments) {
  WaitForEarlierKernels();
  const RopeAppendOptions& options = arguments.options;
  const int lanes = arguments.lanes;
  const std::int64_t head = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const bool exists = head < options.heads + 2 * options.kv_heads;
  const bool any_gain = options.query_gain != nullptr || options.key_gain != nullptr;
  for (std::int64_t token = blockIdx.y; token < arguments.tokens; token += gridDim.y) {
    const Head<kWidth> mine(arguments, token, exists ? head : 0, lane);
    float factor = 1;
    if (any_gain) {  // uniform across the warp, which synchronises here
      float sum = exists ? mine.SquareSum() : 0;
      for (int other = lanes / 2; other > 0; other /= 2) sum += __shfl_xor_sync(~0U, sum, other);
      factor = rsqrtf(sum / static_cast<float>(arguments.head_dim) + options.epsilon);
    }
    Bf16* place = exists ? mine.Place(arguments.slots[token]) : nullptr;
    if (place == nullptr) continue;
    const float* turn = nullptr;
    if (options.rope_table != nullptr && !mine.IsValue()) {
      turn = options.rope_table + arguments.positions[token] * 2 * options.pairs;
    }
    mine.Write(factor, mine.Gain(), turn, place, mine.Keeps());
  }
}

// True if every lane of a group takes one whole pack of each half.
bool TakesPacks(const DeviceMatrix& qkv, const RopeAppendOptions& options, const KvCacheView& cache,
                std::int64_t half) {
  constexpr std::int64_t kWidth = kPackBytes / 2;
  const std::int64_t packs = half / kWidth;
  return 2 * half == cache.shape.head_dim && half % kWidth == 0 && packs <= kWarp &&
         std::has_single_bit(static_cast<std::uint64_t>(packs)) && IsPacked(qkv) &&
         IsPacked(options.bias) && IsPacked(options.query_gain) && IsPacked(options.key_gain) &&
         IsPacked(options.rope_table) && IsPacked(cache.data);
}

}  // namespace

void RopeAppend(StreamView stream, DeviceMatrix qkv, const std::int32_t* positions,
                const std::int32_t* slots, const RopeAppendOptions& options, std::int64_t layer,
                const KvCacheView& cache) {
  const KvCacheShape& shape = cache.shape;
  const std::int64_t all_heads = options.heads + 2 * options.kv_heads;
  CHECK(qkv.dtype == shape.dtype && qkv.columns == all_heads * shape.head_dim);
  CHECK(options.kv_heads == shape.kv_heads && layer >= 0 && layer < shape.layers);
  CHECK(shape.head_dim % 2 == 0 && shape.head_dim <= kHeadDimMax);
  CHECK(options.rope_table == nullptr || 2 * options.pairs <= shape.head_dim);
  if (qkv.rows == 0 || qkv.columns == 0) return;
  const std::int64_t half = options.rope_table != nullptr ? options.pairs : shape.head_dim / 2;
  const bool packed = TakesPacks(qkv, options, cache, half);
  CHECK(qkv.dtype == DType::kBf16);
  constexpr int kWidth = kPackWidth<Bf16>;
  const std::int64_t tile = shape.kv_heads * shape.block_size * shape.head_dim;
  const Arguments arguments{
      .qkv = RowsOf<Bf16>(qkv),
      .positions = positions,
      .slots = slots,
      .options = options,
      .tokens = qkv.rows,
      .head_dim = shape.head_dim,
      .half = half,
      .lanes = packed ? static_cast<int>(half / kWidth) : kWarp,
      .keys = reinterpret_cast<Bf16*>(cache.data) + layer * 2 * tile,
      .values_offset = tile,
      .block_stride = shape.BlockBytes() / static_cast<std::int64_t>(sizeof(Bf16)),
      .block_size = shape.block_size};
  LaunchShape launch = RowGrid(qkv.rows, all_heads * arguments.lanes, kThreads);
  launch.threads = kThreads;
  if (packed) {
    Launch(stream, launch, "RopeAppend", &RopeAppendKernel<kWidth>, arguments);
  } else {
    Launch(stream, launch, "RopeAppend", &RopeAppendKernel<1>, arguments);
  }
}

}  // namespace twin::kernels::cuda
