// Our own kernels on a GPU at the shapes of Llama-3-8B. All but sampling with top_k and top_p are
// bound by memory: compare bytes_per_second (read and written) with BM_CopyCeiling's.
#include "tests/perf/device_bench.h"
//
#include "kernels/cuda/activation.h"
#include "kernels/cuda/expert_gemm.h"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/random_fill.h"
#include "kernels/cuda/rope_append.h"
#include "kernels/cuda/routing.h"
#include "kernels/cuda/sampling.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kCalls = 20;
constexpr std::int64_t kHidden = 4096;

// As many arrays of a size as no cache holds, in turn.
class Rotated {
 public:
  explicit Rotated(std::int64_t bytes)
      : bytes_((bytes + 255) / 256 * 256),
        copies_(1 + 2 * CacheBytes() / bytes_),
        array_(static_cast<std::size_t>(bytes_ * copies_), "operands") {
    FillWithNumbers(array_);
  }
  [[nodiscard]] std::byte* At(int call) const { return array_.data() + call % copies_ * bytes_; }
  [[nodiscard]] DeviceMatrix Matrix(int call, std::int64_t rows, std::int64_t columns) const {
    return DenseDeviceMatrix(At(call), DType::kBf16, rows, columns);
  }

 private:
  std::int64_t bytes_;
  std::int64_t copies_;
  DeviceBuffer array_;
};

// Values on the device.
template <class T>
class Sent {
 public:
  explicit Sent(const std::vector<T>& values) : array_(values.size() * sizeof(T), "values") {
    CheckCuda(cudaMemcpy(array_.data(), values.data(), array_.size(), cudaMemcpyHostToDevice),
              "cudaMemcpy");
    CheckCuda(cudaDeviceSynchronize(), "cudaMemcpy");
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(array_.data()); }

 private:
  DeviceBuffer array_;
};

// What a copy within the device reaches. Argument: MiB.
void BM_CopyCeiling(benchmark::State& state) {
  const std::int64_t bytes = state.range(0) << 20;
  const BenchStream stream;
  const Rotated from(bytes);
  const Rotated to(bytes);
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    CheckCuda(cudaMemcpyAsync(to.At(call), from.At(call), static_cast<std::size_t>(bytes),
                              cudaMemcpyDeviceToDevice, stream.view().get()),
              "cudaMemcpyAsync");
  });
  Rate(state, "bytes_per_second", 2.0 * static_cast<double>(bytes));
}
BENCHMARK(BM_CopyCeiling)->Arg(16)->Arg(1024)->Apply(Once);

void BM_AddNormalize(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const BenchStream stream;
  const Sent gain(std::vector<float>(kHidden, 1.0F));
  const DeviceNorm norm{NormKind::kRmsNorm, gain.data(), nullptr, 1e-5F};
  const Rotated residual(tokens * kHidden * 2);
  const Rotated delta(tokens * kHidden * 2);
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    const DeviceMatrix y = delta.Matrix(call, tokens, kHidden);
    AddNormalize(stream.view(), {y, nullptr, 1}, norm, residual.Matrix(call, tokens, kHidden), y);
  });
  Rate(state, "bytes_per_second", 8.0 * static_cast<double>(tokens * kHidden));
}

void BM_ActivateGated(benchmark::State& state) {
  constexpr std::int64_t kWidth = 14336;
  const std::int64_t tokens = state.range(0);
  const BenchStream stream;
  const Rotated gate_up(tokens * kWidth * 4);
  const Rotated y(tokens * kWidth * 2);
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    ActivateGated(stream.view(), Activation::kSilu, gate_up.Matrix(call, tokens, 2 * kWidth),
                  nullptr, y.Matrix(call, tokens, kWidth));
  });
  Rate(state, "bytes_per_second", 6.0 * static_cast<double>(tokens * kWidth));
}

void BM_RopeAppend(benchmark::State& state) {
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kKvHeads = 8;
  constexpr std::int64_t kHeadDim = 128;
  constexpr std::int64_t kWidth = (kHeads + 2 * kKvHeads) * kHeadDim;
  const std::int64_t tokens = state.range(0);
  const KvCacheShape shape{.dtype = DType::kBf16,
                           .blocks = (tokens + 15) / 16,
                           .layers = 4,
                           .kv_heads = kKvHeads,
                           .block_size = 16,
                           .head_dim = kHeadDim};
  std::vector<std::int32_t> places;
  for (std::int64_t t = 0; t < tokens; ++t) places.push_back(static_cast<std::int32_t>(t));
  const Sent slots(places);
  const std::int32_t* indices = slots.data();
  const Sent table(std::vector<float>(static_cast<std::size_t>(tokens * 128), 0.7F));
  const BenchStream stream;
  const Rotated qkv(tokens * kWidth * 2);
  const Rotated cache(shape.Bytes());
  const RopeAppendOptions options{
      .heads = kHeads, .kv_heads = kKvHeads, .rope_table = table.data(), .pairs = kHeadDim / 2};
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    RopeAppend(stream.view(), qkv.Matrix(call, tokens, kWidth), indices, indices, options,
               call % shape.layers, {cache.At(call), shape});
  });
  Rate(state, "bytes_per_second", 4.0 * static_cast<double>(tokens * kWidth));
}

void Tokens(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t tokens : {1, 32, 256, 2048, 8192}) benchmark->Arg(tokens);
  benchmark->Apply(Once);
}
BENCHMARK(BM_AddNormalize)->Apply(Tokens);
BENCHMARK(BM_ActivateGated)->Apply(Tokens);
BENCHMARK(BM_RopeAppend)->Apply(Tokens);

// Arguments: tokens, outputs, inputs.
void BM_SkinnyGemm(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const std::int64_t outputs = state.range(1);
  const std::int64_t inputs = state.range(2);
  const BenchStream stream;
  const Rotated w(outputs * inputs * 2);
  const Rotated x(tokens * inputs * 2);
  const DeviceBuffer y(static_cast<std::size_t>(tokens * outputs * 2), "results");
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    SkinnyGemm(stream.view(), x.Matrix(0, tokens, inputs), w.Matrix(call, outputs, inputs),
               DenseDeviceMatrix(y.data(), DType::kBf16, tokens, outputs));
  });
  Rate(state, "bytes_per_second", 2.0 * static_cast<double>(outputs * inputs));
}
BENCHMARK(BM_SkinnyGemm)
    ->ArgsProduct({{1, 2, 4}, {4096, 6144, 28672, 128256}, {4096}})
    ->Args({1, 4096, 14336})
    ->Args({4, 4096, 14336})
    ->Apply(Once);

// The up projections of Mixtral 8x7B and Qwen3-30B-A3B, with experts chosen at random. Arguments:
// rows, experts, experts per row, outputs, inputs.
void BM_ExpertGemm(benchmark::State& state) {
  const RoutingShape shape{state.range(0), static_cast<std::int32_t>(state.range(1)),
                           static_cast<std::int32_t>(state.range(2))};
  const std::int64_t outputs = state.range(3);
  const std::int64_t inputs = state.range(4);
  const BenchStream stream;
  const DeviceBuffer logits(static_cast<std::size_t>(shape.rows * shape.experts * 4), "logits");
  const DeviceMatrix chosen =
      DenseDeviceMatrix(logits.data(), DType::kFp32, shape.rows, shape.experts);
  FillWithNormals(stream.view(), {.key = 1, .row_step = static_cast<std::uint64_t>(shape.experts)},
                  chosen);
  const DeviceBuffer routing(static_cast<std::size_t>(RoutingBytes(shape)), "routing");
  const RoutedPairs routed = RoutedPairsAt(routing.data(), shape);
  RouteRows(stream.view(), chosen, true, routed);
  const Rotated w(shape.experts * outputs * inputs * 2);
  const Rotated x(shape.rows * inputs * 2);
  const DeviceBuffer y(static_cast<std::size_t>(shape.pairs() * outputs * 2), "results");
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    ExpertGemm(stream.view(), x.Matrix(0, shape.rows, inputs),
               w.Matrix(call, shape.experts * outputs, inputs), routed, ExpertInput::kRows,
               DenseDeviceMatrix(y.data(), DType::kBf16, shape.pairs(), outputs));
  });
  Rate(state, "flops_per_second", 2.0 * static_cast<double>(shape.pairs() * outputs * inputs));
}
BENCHMARK(BM_ExpertGemm)
    ->ArgsProduct({{1, 16, 256, 2048}, {8}, {2}, {28672}, {4096}})
    ->ArgsProduct({{1, 32, 256, 4096}, {128}, {8}, {1536}, {2048}})
    ->Apply(Once);

// Arguments: rows, 0 greedy, 1 temperature alone, 2 top_k 50 and top_p 0.9.
void BM_SampleTokens(benchmark::State& state) {
  constexpr std::int64_t kVocab = 128256;
  const std::int64_t rows = state.range(0);
  const SamplingParameters parameters{.temperature = state.range(1) == 0 ? 0.0F : 1.0F,
                                      .top_k = state.range(1) == 2 ? 50 : 0,
                                      .top_p = state.range(1) == 2 ? 0.9F : 1.0F};
  const Sent all(std::vector<SamplingParameters>(static_cast<std::size_t>(rows), parameters));
  const Sent first(std::vector<std::int32_t>{0});
  const DeviceBuffer tokens(static_cast<std::size_t>(rows * 4), "tokens");
  static const std::vector<float> drawn = [] {
    Random random(1, "logits");
    std::vector<float> values(static_cast<std::size_t>(8 * kVocab));
    for (float& value : values) value = static_cast<float>(random.Normal());
    return values;
  }();
  std::vector<float> values(static_cast<std::size_t>(rows * kVocab));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawn[i % drawn.size()];
  const Sent logits(values);
  const BenchStream stream;
  MeasureInGraph(state, stream.view(), kCalls, [&](int) {
    SampleTokens(stream.view(), DenseDeviceMatrix(logits.data(), DType::kFp32, rows, kVocab),
                 all.data(), first.data(), reinterpret_cast<std::int32_t*>(tokens.data()));
  });
  Rate(state, "bytes_per_second", 4.0 * static_cast<double>(rows * kVocab));
}
BENCHMARK(BM_SampleTokens)->ArgsProduct({{1, 32, 256}, {0, 1, 2}})->Apply(Once);

}  // namespace
}  // namespace twin::kernels::cuda

int main(int argc, char** argv) { return twin::kernels::cuda::RunDeviceBenchmarks(argc, argv); }
