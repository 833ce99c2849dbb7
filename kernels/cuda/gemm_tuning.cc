#include "kernels/cuda/gemm_tuning.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "core/random.h"
#include "kernels/cuda/gemv.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kTurns = 5;
constexpr int kProductsMax = 20;        // of a candidate in a turn
constexpr float kTurnMilliseconds = 2;  // about, where one product takes less
constexpr std::size_t kPatternBytes = std::size_t{4} << 20;

// Of 16 bits, uniform between 0.5 and 1 or -0.5 and -1, whichever of the two formats reads them.
// Products of zeros would take less power, and less time.
std::vector<std::uint16_t> RandomPattern(DType dtype) {
  Random random(1, "gemm_tuning");
  const unsigned exponent = dtype == DType::kBf16 ? 126U << 7 : 14U << 10;
  const unsigned fraction = dtype == DType::kBf16 ? 0x7FU : 0x3FFU;
  std::vector<std::uint16_t> pattern(kPatternBytes / sizeof(std::uint16_t));
  for (std::uint16_t& value : pattern) {
    const auto bits = static_cast<unsigned>(random.Next() >> 48);
    value = static_cast<std::uint16_t>((bits & 0x8000U) | exponent | (bits & fraction));
  }
  return pattern;
}

class DeviceArray {
 public:
  explicit DeviceArray(std::size_t bytes) : bytes_(bytes) {
    CheckCuda(cudaMalloc(&data_, bytes), "cudaMalloc of operands to tune products with");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

  // Repeats the pattern. The pattern must live until the stream has been waited for.
  void Fill(StreamView stream, const std::vector<std::uint16_t>& pattern) {
    std::size_t filled = std::min(bytes_, kPatternBytes);
    CheckCuda(cudaMemcpyAsync(data_, pattern.data(), filled, cudaMemcpyHostToDevice, stream.get()),
              "filling operands to tune products with");
    while (filled < bytes_) {
      const std::size_t more = std::min(filled, bytes_ - filled);
      CheckCuda(
          cudaMemcpyAsync(data() + filled, data_, more, cudaMemcpyDeviceToDevice, stream.get()),
          "filling operands to tune products with");
      filled += more;
    }
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class EventPair {
 public:
  EventPair() {
    CheckCuda(cudaEventCreate(&begin_), "cudaEventCreate");
    const int code = cudaEventCreate(&end_);
    if (code != cudaSuccess) cudaEventDestroy(begin_);
    CheckCuda(code, "cudaEventCreate");
  }
  ~EventPair() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;

  void Begin(StreamView stream) {
    CheckCuda(cudaEventRecord(begin_, stream.get()), "cudaEventRecord");
  }
  // Waits.
  float EndMilliseconds(StreamView stream) {
    CheckCuda(cudaEventRecord(end_, stream.get()), "cudaEventRecord");
    CheckCuda(cudaEventSynchronize(end_), "measuring a product");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

std::size_t Bytes(std::int64_t rows, std::int64_t columns, DType dtype) {
  return static_cast<std::size_t>(rows * columns * ByteSize(dtype));
}

// So many copies of the weights that each product finds its own gone from the cache.
std::size_t WeightCopies(std::size_t weight_bytes) {
  int device = 0;
  int cache_bytes = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device),
            "asking for the size of the cache");
  return 1 + 2 * static_cast<std::size_t>(cache_bytes) / weight_bytes;
}

// One shape's operands, and the clock.
class Bench {
 public:
  Bench(const CublasLtContext& context, StreamView stream, const GemmShape& shape)
      : stream_(stream),
        shape_(shape),
        strides_(AlignedStrides(shape)),
        product_(context, shape, strides_),
        weight_bytes_(Bytes(shape.outputs, strides_.w, shape.input_dtype)),
        copies_(WeightCopies(weight_bytes_)),
        weights_(weight_bytes_ * copies_),
        x_(Bytes(shape.tokens, strides_.x, shape.input_dtype)),
        y_(Bytes(shape.tokens, strides_.y, shape.output_dtype)) {
    const std::vector<std::uint16_t> pattern = RandomPattern(shape.input_dtype);
    weights_.Fill(stream, pattern);
    x_.Fill(stream, pattern);
    CheckCuda(cudaStreamSynchronize(stream.get()), "filling operands to tune products with");
  }

  [[nodiscard]] const CublasLtProduct& product() const { return product_; }
  [[nodiscard]] bool TakesSkinny() const { return TakesSkinnyGemm(X(), W(0), Y()); }

  // Of one product, in milliseconds, as the mean of `products`.
  float Measure(const GemmAlgorithm& algorithm, int products) {
    events_.Begin(stream_);
    for (int i = 0; i < products; ++i) {
      turn_ = (turn_ + 1) % copies_;
      if (algorithm.skinny) {
        SkinnyGemm(stream_, X(), W(turn_), Y());
      } else {
        product_.Run(stream_, x_.data(), W(turn_).data, y_.data(),
                     std::bit_cast<cublasLtMatmulAlgo_t>(algorithm.blob));
      }
    }
    return events_.EndMilliseconds(stream_) / static_cast<float>(products);
  }

 private:
  [[nodiscard]] DeviceMatrix X() const {
    return {x_.data(), shape_.input_dtype, shape_.tokens, shape_.inputs, strides_.x};
  }
  [[nodiscard]] DeviceMatrix W(std::size_t copy) const {
    return {weights_.data() + copy * weight_bytes_, shape_.input_dtype, shape_.outputs,
            shape_.inputs, strides_.w};
  }
  [[nodiscard]] DeviceMatrix Y() const {
    return {y_.data(), shape_.output_dtype, shape_.tokens, shape_.outputs, strides_.y};
  }

  StreamView stream_;
  GemmShape shape_;
  GemmStrides strides_;
  CublasLtProduct product_;
  std::size_t weight_bytes_;
  std::size_t copies_;
  DeviceArray weights_;
  DeviceArray x_;
  DeviceArray y_;
  EventPair events_;
  std::size_t turn_ = 0;
};

struct Candidate {
  GemmAlgorithm algorithm;
  int products = 0;
  std::vector<float> milliseconds;
};

std::vector<Candidate> MakeCandidates(const Bench& bench, int count) {
  std::vector<Candidate> candidates;
  for (const cublasLtMatmulAlgo_t& suggestion : bench.product().Suggestions(count)) {
    Candidate& candidate = candidates.emplace_back();
    candidate.algorithm.blob = std::bit_cast<std::array<std::uint64_t, 8>>(suggestion);
  }
  if (bench.TakesSkinny()) candidates.emplace_back().algorithm.skinny = true;
  return candidates;
}

}  // namespace

GemmAlgorithm FastestGemm(const CublasLtContext& context, StreamView stream, const GemmShape& shape,
                          int candidates) {
  Bench bench(context, stream, shape);
  std::vector<Candidate> field = MakeCandidates(bench, candidates);
  for (Candidate& candidate : field) {
    bench.Measure(candidate.algorithm, 1);  // loads its code
    const float once = bench.Measure(candidate.algorithm, 1);
    const float wanted = once > 0 ? kTurnMilliseconds / once : float{kProductsMax};
    candidate.products = static_cast<int>(std::clamp(wanted, 1.0F, float{kProductsMax}));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Candidate& candidate : field) {
      candidate.milliseconds.push_back(bench.Measure(candidate.algorithm, candidate.products));
    }
  }
  Candidate* fastest = nullptr;
  for (Candidate& candidate : field) {
    std::sort(candidate.milliseconds.begin(), candidate.milliseconds.end());
    const float median = candidate.milliseconds[kTurns / 2];
    candidate.algorithm.microseconds = 1000.0 * static_cast<double>(median);
    if (fastest == nullptr || candidate.algorithm.microseconds < fastest->algorithm.microseconds) {
      fastest = &candidate;
    }
  }
  return fastest->algorithm;
}

}  // namespace twin::kernels::cuda
