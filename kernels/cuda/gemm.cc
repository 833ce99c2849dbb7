#include "kernels/cuda/gemm.h"

#include <cuda_runtime_api.h>

#include <bit>
#include <cstring>
#include <exception>
#include <string>
#include <unordered_map>

#include "core/check.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "kernels/cuda/cublaslt_product.h"
#include "kernels/cuda/gemm_algorithms.h"
#include "kernels/cuda/gemm_tuning.h"
#include "kernels/cuda/gemv.h"

namespace twin::kernels::cuda {
namespace {

struct ProductKey {
  DeviceGemmShape shape;
  GemmStrides strides;

  bool operator==(const ProductKey&) const = default;
};

struct Hash {
  std::size_t operator()(const DeviceGemmShape& shape) const {
    const auto formats = static_cast<std::uint64_t>(shape.accumulation) << 15 |
                         static_cast<std::uint64_t>(shape.input_dtype) << 8 |
                         static_cast<std::uint64_t>(shape.output_dtype);
    return MixWords(MixWords(static_cast<std::uint64_t>(shape.tokens) << 16 | formats,
                             static_cast<std::uint64_t>(shape.outputs)),
                    static_cast<std::uint64_t>(shape.inputs));
  }
  std::size_t operator()(const ProductKey& key) const {
    return MixWords(MixWords((*this)(key.shape), static_cast<std::uint64_t>(key.strides.x)),
                    MixWords(static_cast<std::uint64_t>(key.strides.w),
                             static_cast<std::uint64_t>(key.strides.y)));
  }
};

// The choice for a shape. It always has an algorithm of cuBLASLt, because SkinnyGemm does not
// support all operands of its shapes.
struct Choice {
  bool skinny = false;
  cublasLtMatmulAlgo_t algorithm{};
};

struct GemmOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
};

struct Plan {
  CublasLtProduct product;
  Choice choice;
};

// How many suggestions are tried for a product before it fails.
constexpr int kSuggestionsTried = 8;

std::string DeviceName() {
  int device = 0;
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

bool Aligned(const DeviceMatrix& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % kGemmAlignment == 0 &&
         matrix.stride * ByteSize(matrix.dtype) % kGemmAlignment == 0;
}

bool Capturing(StreamView stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CheckCuda(cudaStreamIsCapturing(stream.get(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

std::int64_t RoundedTokens(std::int64_t tokens) {
  const std::int64_t step = tokens <= 8      ? 1
                            : tokens <= 256  ? 8
                            : tokens <= 1024 ? 32
                            : tokens <= 4096 ? 64
                                             : 128;
  return (tokens + step - 1) / step * step;
}

class Gemm::State {
 public:
  State(const CublasLtLibrary& library, const std::filesystem::path& cache)
      : context_(library), measured_(cache, DeviceName(), library.version()) {}

  void Multiply(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y);
  void MultiplyScaled(StreamView stream, const ScaledMatrix& x, const ScaledMatrix& w,
                      DeviceMatrix y, Fp8Accumulation accumulation);
  void Prepare(const DeviceGemmShape& shape) { ChoiceFor(shape); }
  double Tune(StreamView stream, const DeviceGemmShape& shape, int candidates);
  void Save() const { measured_.Save(); }
  [[nodiscard]] bool Measured(const DeviceGemmShape& shape) const {
    return measured_.Find(shape) != nullptr;
  }
  [[nodiscard]] DecodeTimes& decode_times() { return measured_.decodes(); }

 private:
  const Choice& ChoiceFor(const DeviceGemmShape& shape);
  // The choice for the shape itself: as measured, or the first suggestion.
  [[nodiscard]] Choice ChoiceOf(const DeviceGemmShape& shape) const;
  // REQUIRES: the shapes and formats of the operands match.
  Plan& PlanFor(StreamView stream, const DeviceMatrix& x, const DeviceMatrix& w,
                const DeviceMatrix& y, Fp8Accumulation accumulation);
  Plan& MakePlan(StreamView stream, const ProductKey& key);
  // Multiplies by the algorithm of the plan. If cuBLASLt refuses it at run time, multiplies by the
  // first further suggestion that it accepts, which replaces the algorithm.
  void Run(StreamView stream, Plan& plan, const GemmOperands& operands);

  CublasLtContext context_;
  GemmAlgorithmFile measured_;
  std::unordered_map<DeviceGemmShape, Choice, Hash> choices_;
  std::unordered_map<ProductKey, Plan, Hash> plans_;
};

void Gemm::State::Multiply(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y) {
  CHECK(x.dtype == w.dtype && (y.dtype == x.dtype || y.dtype == DType::kFp32));
  if (x.rows == 0) return;
  Plan& plan = PlanFor(stream, x, w, y, Fp8Accumulation::kAccurate);
  if (plan.choice.skinny && TakesSkinnyGemm(x, w, y)) {
    SkinnyGemm(stream, x, w, y);
  } else {
    Run(stream, plan, {x.data, w.data, y.data});
  }
}

void Gemm::State::MultiplyScaled(StreamView stream, const ScaledMatrix& x, const ScaledMatrix& w,
                                 DeviceMatrix y, Fp8Accumulation accumulation) {
  CHECK(x.values.dtype == DType::kFp8 && w.values.dtype == DType::kFp8);
  CHECK(x.values.columns % kFp8Sizes == 0 && w.values.rows % kFp8Sizes == 0);
  if (x.values.rows == 0) return;
  Plan& plan = PlanFor(stream, x.values, w.values, y, accumulation);
  plan.product.Scale({.x = x.scales, .w = w.scales});
  Run(stream, plan, {x.values.data, w.values.data, y.data});
}

void Gemm::State::Run(StreamView stream, Plan& plan, const GemmOperands& operands) {
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm) {
    plan.product.Run(stream, operands.x, operands.w, operands.y, algorithm);
  };
  std::exception_ptr failure;
  try {
    run(plan.choice.algorithm);
    return;
  } catch (const CublasLtError&) {
    // A capture cannot be continued after a failed call.
    if (Capturing(stream)) throw;
    failure = std::current_exception();
  }
  for (const cublasLtMatmulAlgo_t& other : plan.product.Suggestions(kSuggestionsTried)) {
    if (std::memcmp(&other, &plan.choice.algorithm, sizeof(other)) == 0) continue;
    try {
      run(other);
    } catch (const CublasLtError&) {
      continue;
    }
    plan.choice.algorithm = other;
    return;
  }
  std::rethrow_exception(failure);
}

Plan& Gemm::State::PlanFor(StreamView stream, const DeviceMatrix& x, const DeviceMatrix& w,
                           const DeviceMatrix& y, Fp8Accumulation accumulation) {
  CHECK(x.columns == w.columns && y.rows == x.rows && y.columns == w.rows);
  CHECK(Aligned(x) && Aligned(w) && Aligned(y));
  const ProductKey key{.shape = {.tokens = x.rows,
                                 .outputs = w.rows,
                                 .inputs = x.columns,
                                 .input_dtype = x.dtype,
                                 .output_dtype = y.dtype,
                                 .accumulation = accumulation},
                       .strides = {.x = x.stride, .w = w.stride, .y = y.stride}};
  const auto found = plans_.find(key);
  return found != plans_.end() ? found->second : MakePlan(stream, key);
}

Plan& Gemm::State::MakePlan(StreamView stream, const ProductKey& key) {
  // Choosing calls the heuristic of cuBLASLt, which may make calls that a capture does not allow.
  const bool prepared = choices_.contains(key.shape);
  CHECK(prepared || !Capturing(stream));
  const Choice& choice = ChoiceFor(key.shape);
  return plans_.try_emplace(key, Plan{CublasLtProduct(context_, key.shape, key.strides), choice})
      .first->second;
}

const Choice& Gemm::State::ChoiceFor(const DeviceGemmShape& shape) {
  const auto found = choices_.find(shape);
  if (found != choices_.end()) return found->second;
  DeviceGemmShape rounded = shape;
  rounded.tokens = RoundedTokens(shape.tokens);
  if (rounded == shape || measured_.Find(shape) != nullptr) {
    return choices_.emplace(shape, ChoiceOf(shape)).first->second;
  }
  Choice choice = ChoiceFor(rounded);
  const CublasLtProduct product(context_, shape, AlignedStrides(shape));
  if (!product.Accepts(choice.algorithm)) choice.algorithm = product.Suggestions(1).front();
  return choices_.emplace(shape, choice).first->second;
}

Choice Gemm::State::ChoiceOf(const DeviceGemmShape& shape) const {
  const CublasLtProduct product(context_, shape, AlignedStrides(shape));
  const GemmAlgorithm* const measured = measured_.Find(shape);
  if (measured == nullptr || measured->skinny) {
    return {.skinny = measured != nullptr, .algorithm = product.Suggestions(1).front()};
  }
  const Choice choice{.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(measured->blob)};
  if (product.Accepts(choice.algorithm)) return choice;
  throw InputError(InputError::Kind::kData, measured_.path().string(),
                   "cuBLASLt refuses the algorithm for " + std::to_string(shape.tokens) + " x " +
                       std::to_string(shape.outputs) + " x " + std::to_string(shape.inputs) +
                       "; remove the file and tune again");
}

double Gemm::State::Tune(StreamView stream, const DeviceGemmShape& shape, int candidates) {
  CHECK(shape.tokens > 0 && candidates > 0);
  const GemmAlgorithm fastest = FastestGemm(context_, stream, shape, candidates);
  measured_.Set(shape, fastest);
  // Other shapes may have taken the algorithm of this one.
  choices_.clear();
  plans_.clear();
  ChoiceFor(shape);
  return fastest.microseconds * 1e-6;
}

Gemm::Gemm(const CublasLtLibrary& library, const std::filesystem::path& cache)
    : state_(std::make_unique<State>(library, cache)) {}
Gemm::~Gemm() = default;

void Gemm::Multiply(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y) {
  state_->Multiply(stream, x, w, y);
}
void Gemm::MultiplyScaled(StreamView stream, const ScaledMatrix& x, const ScaledMatrix& w,
                          DeviceMatrix y, Fp8Accumulation accumulation) {
  state_->MultiplyScaled(stream, x, w, y, accumulation);
}
void Gemm::Prepare(const DeviceGemmShape& shape) { state_->Prepare(shape); }
double Gemm::Tune(StreamView stream, const DeviceGemmShape& shape, int candidates) {
  return state_->Tune(stream, shape, candidates);
}
void Gemm::Save() const { state_->Save(); }
bool Gemm::Measured(const DeviceGemmShape& shape) const { return state_->Measured(shape); }
DecodeTimes& Gemm::decode_times() { return state_->decode_times(); }
std::int64_t Gemm::workspace_bytes() const {
  return static_cast<std::int64_t>(kGemmWorkspaceBytes);
}

}  // namespace twin::kernels::cuda
