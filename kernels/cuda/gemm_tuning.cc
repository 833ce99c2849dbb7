#include "kernels/cuda/gemm_tuning.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "core/random.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/event.h"
#include "kernels/cuda/gemv.h"

namespace twin::kernels::cuda {
namespace {

constexpr const char* kPurpose = "operands to tune products with";
constexpr int kTurns = 5;
constexpr int kProductsMax = 20;        // per candidate and turn
constexpr float kTurnMilliseconds = 2;  // approximate; longer if one product takes longer
constexpr std::size_t kPatternBytes = std::size_t{4} << 20;

// Uniform random numbers of magnitude 0.5 to 1 and either sign; 16 bits hold one or two of them.
// Products of zeros would draw less power and run faster.
std::vector<std::uint16_t> RandomPattern(DType dtype) {
  Random random(1, "gemm_tuning");
  const bool eight = dtype == DType::kFp8;
  const unsigned sign = eight ? 0x8080U : 0x8000U;
  const unsigned exponent = eight ? 0x3030U : dtype == DType::kBf16 ? 126U << 7 : 14U << 10;
  const unsigned fraction = eight ? 0x0707U : dtype == DType::kBf16 ? 0x7FU : 0x3FFU;
  std::vector<std::uint16_t> pattern(kPatternBytes / sizeof(std::uint16_t));
  for (std::uint16_t& value : pattern) {
    const auto bits = static_cast<unsigned>(random.Next() >> 48);
    value = static_cast<std::uint16_t>((bits & sign) | exponent | (bits & fraction));
  }
  return pattern;
}

// Fills the array with copies of the pattern, which must live until the stream has been waited for.
void Fill(StreamView stream, const DeviceBuffer& array, const std::vector<std::uint16_t>& pattern) {
  const char* const what = "filling operands to tune products with";
  std::size_t filled = std::min(array.size(), kPatternBytes);
  CheckCuda(
      cudaMemcpyAsync(array.data(), pattern.data(), filled, cudaMemcpyHostToDevice, stream.get()),
      what);
  while (filled < array.size()) {
    const std::size_t more = std::min(filled, array.size() - filled);
    CheckCuda(cudaMemcpyAsync(array.data() + filled, array.data(), more, cudaMemcpyDeviceToDevice,
                              stream.get()),
              what);
    filled += more;
  }
}

std::size_t Bytes(std::int64_t rows, std::int64_t columns, DType dtype) {
  return static_cast<std::size_t>(rows * columns * ByteSize(dtype));
}

// The number of copies of the weights at which no product finds its copy in the cache.
std::size_t WeightCopies(std::size_t weight_bytes) {
  int device = 0;
  int cache_bytes = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device),
            "asking for the size of the cache");
  return 1 + 2 * static_cast<std::size_t>(cache_bytes) / weight_bytes;
}

// The operands of one shape, and the events that time products.
class Bench {
 public:
  Bench(const CublasLtContext& context, StreamView stream, const DeviceGemmShape& shape)
      : stream_(stream),
        shape_(shape),
        strides_(AlignedStrides(shape)),
        product_(context, shape, strides_),
        weight_bytes_(Bytes(shape.outputs, strides_.w, shape.input_dtype)),
        copies_(WeightCopies(weight_bytes_)),
        weights_(weight_bytes_ * copies_, kPurpose),
        x_(Bytes(shape.tokens, strides_.x, shape.input_dtype), kPurpose),
        y_(Bytes(shape.tokens, strides_.y, shape.output_dtype), kPurpose),
        scales_(shape.input_dtype == DType::kFp8
                    ? Bytes(1, std::max(shape.tokens, shape.outputs), DType::kFp32)
                    : 0,
                kPurpose) {
    const std::vector<std::uint16_t> pattern = RandomPattern(shape.input_dtype);
    Fill(stream, weights_, pattern);
    Fill(stream, x_, pattern);
    if (scales_.size() > 0) {
      // Small positive numbers: bytes 0x3C3C3C3C are 0.0115.
      CheckCuda(cudaMemsetAsync(scales_.data(), 0x3C, scales_.size(), stream.get()),
                "filling scales to tune products with");
      const auto* const scales = reinterpret_cast<const float*>(scales_.data());
      product_.Scale({.x = scales, .w = scales});
    }
    AwaitStream(stream, "filling operands to tune products with");
  }

  [[nodiscard]] const CublasLtProduct& product() const { return product_; }
  [[nodiscard]] bool TakesSkinny() const { return TakesSkinnyGemm(X(), W(0), Y()); }

  // Time of one product in milliseconds, as the mean over `products`.
  float Measure(const GemmAlgorithm& algorithm, int products) {
    begin_.Record(stream_);
    for (int i = 0; i < products; ++i) {
      turn_ = (turn_ + 1) % copies_;
      if (algorithm.skinny) {
        SkinnyGemm(stream_, X(), W(turn_), Y());
      } else {
        product_.Run(stream_, x_.data(), W(turn_).data, y_.data(),
                     std::bit_cast<cublasLtMatmulAlgo_t>(algorithm.blob));
      }
    }
    end_.Record(stream_);
    end_.Await("a product that is being measured");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "measuring a product");
    return milliseconds / static_cast<float>(products);
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
  DeviceGemmShape shape_;
  GemmStrides strides_;
  CublasLtProduct product_;
  std::size_t weight_bytes_;
  std::size_t copies_;
  DeviceBuffer weights_;
  DeviceBuffer x_;
  DeviceBuffer y_;
  DeviceBuffer scales_;  // of both operands, for fp8
  Event begin_{Event::Kind::kTimed};
  Event end_{Event::Kind::kTimed};
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

// Removes the candidates that cuBLASLt refuses; if none is left, rethrows what the last one
// threw.
template <class Measure>
void ForEachThatWorks(std::vector<Candidate>& field, const Measure& measure) {
  for (auto candidate = field.begin(); candidate != field.end();) {
    try {
      measure(*candidate);
      ++candidate;
    } catch (const CublasLtError&) {
      if (field.size() == 1) throw;
      candidate = field.erase(candidate);
    }
  }
}

}  // namespace

GemmAlgorithm FastestGemm(const CublasLtContext& context, StreamView stream,
                          const DeviceGemmShape& shape, int candidates) {
  Bench bench(context, stream, shape);
  std::vector<Candidate> field = MakeCandidates(bench, candidates);
  ForEachThatWorks(field, [&](Candidate& candidate) {
    bench.Measure(candidate.algorithm, 1);  // warm-up: loads the kernel code
    const float once = bench.Measure(candidate.algorithm, 1);
    const float wanted = once > 0 ? kTurnMilliseconds / once : float{kProductsMax};
    candidate.products = static_cast<int>(std::clamp(wanted, 1.0F, float{kProductsMax}));
  });
  for (int turn = 0; turn < kTurns; ++turn) {
    ForEachThatWorks(field, [&](Candidate& candidate) {
      candidate.milliseconds.push_back(bench.Measure(candidate.algorithm, candidate.products));
    });
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
