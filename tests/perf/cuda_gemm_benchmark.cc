// Products on a GPU at the shapes of Llama-3-8B, by the fastest algorithm measured here. Compare
// weight_bytes_per_second at few tokens with the device's memory, flops_per_second at many with its
// matrix units.
#include "tests/perf/device_bench.h"
//
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/quantize.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kCalls = 20;

const CublasLtLibrary& Library() {
  static const CublasLtLibrary library;
  return library;
}

// Arguments: tokens, outputs, inputs, 1 if the results are fp32, 0 for the first suggestion of
// cuBLASLt instead of the fastest algorithm.
void BM_CudaGemm(benchmark::State& state) {
  if (!Library().usable()) {
    state.SkipWithError(Library().why().c_str());
    return;
  }
  const DeviceGemmShape shape{.tokens = state.range(0),
                              .outputs = state.range(1),
                              .inputs = state.range(2),
                              .output_dtype = state.range(3) == 1 ? DType::kFp32 : DType::kBf16};
  const BenchStream stream;
  Gemm gemm(Library(), "");
  if (state.range(4) == 1) gemm.Tune(stream.view(), shape);
  const std::int64_t weight_bytes = shape.outputs * shape.inputs * 2;
  const std::int64_t copies = 1 + 2 * CacheBytes() / weight_bytes;
  const DeviceBuffer w(static_cast<std::size_t>(weight_bytes * copies), "weights");
  const DeviceBuffer x(static_cast<std::size_t>(shape.tokens * shape.inputs * 2), "activations");
  const DeviceBuffer y(
      static_cast<std::size_t>(shape.tokens * shape.outputs * ByteSize(shape.output_dtype)),
      "results");
  FillWithNumbers(w);
  FillWithNumbers(x);
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    gemm.Multiply(stream.view(),
                  DenseDeviceMatrix(x.data(), DType::kBf16, shape.tokens, shape.inputs),
                  DenseDeviceMatrix(w.data() + call % copies * weight_bytes, DType::kBf16,
                                    shape.outputs, shape.inputs),
                  DenseDeviceMatrix(y.data(), shape.output_dtype, shape.tokens, shape.outputs));
  });
  Rate(state, "weight_bytes_per_second", static_cast<double>(weight_bytes));
  Rate(state, "flops_per_second",
       2.0 * static_cast<double>(shape.tokens * shape.outputs * shape.inputs));
}

// Queries, keys and values; output; gate and up; down; logits.
void LlamaShapes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t tokens : {1, 32, 256, 2048, 8192, 4, 16, 64, 512}) {
    for (const auto& [outputs, inputs] : {std::pair(6144, 4096), std::pair(4096, 4096),
                                          std::pair(28672, 4096), std::pair(4096, 14336)}) {
      benchmark->Args({tokens, outputs, inputs, 0, 1});
      if (tokens >= 32) benchmark->Args({tokens, outputs, inputs, 0, 0});
    }
    if (tokens <= 256) benchmark->Args({tokens, 128256, 4096, 1, 1});
  }
}
BENCHMARK(BM_CudaGemm)->Apply(LlamaShapes)->Apply(Once);

// Arguments: tokens, outputs, inputs, Fp8Accumulation. Weights of fp8; activations are quantized in
// each call.
void BM_CudaFp8Gemm(benchmark::State& state) {
  const DeviceGemmShape shape{.tokens = state.range(0),
                              .outputs = state.range(1),
                              .inputs = state.range(2),
                              .input_dtype = DType::kFp8,
                              .accumulation = static_cast<Fp8Accumulation>(state.range(3))};
  const BenchStream stream;
  int major = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking");
  if (!Library().usable() || major != 9) {
    state.SkipWithError("needs cuBLASLt and a device of compute capability 9.0");
    return;
  }
  Gemm gemm(Library(), "");
  gemm.Tune(stream.view(), shape);
  const std::int64_t weight_bytes = shape.outputs * shape.inputs;
  const std::int64_t copies = 1 + 2 * CacheBytes() / weight_bytes;
  const auto array = [](std::int64_t bytes, const char* what) {
    return DeviceBuffer(static_cast<std::size_t>(bytes), what);
  };
  const DeviceBuffer wide = array(2 * weight_bytes, "weights to be quantized");
  const DeviceBuffer w = array(weight_bytes * copies, "weights");
  const DeviceBuffer w_scales = array(4 * shape.outputs, "scales");
  const DeviceBuffer x = array(2 * shape.tokens * shape.inputs, "activations");
  const DeviceBuffer quantized = array(shape.tokens * shape.inputs, "quantized activations");
  const DeviceBuffer x_scales = array(4 * shape.tokens, "scales");
  const DeviceBuffer y = array(2 * shape.tokens * shape.outputs, "results");
  FillWithNumbers(wide);
  FillWithNumbers(x);
  const auto scaled = [&](std::byte* data, const DeviceBuffer& scales, std::int64_t rows) {
    return ScaledMatrix{DenseDeviceMatrix(data, DType::kFp8, rows, shape.inputs),
                        reinterpret_cast<float*>(scales.data())};
  };
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    QuantizeRows(stream.view(),
                 DenseDeviceMatrix(wide.data(), DType::kBf16, shape.outputs, shape.inputs),
                 scaled(w.data() + copy * weight_bytes, w_scales, shape.outputs));
  }
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    const ScaledMatrix activations = scaled(quantized.data(), x_scales, shape.tokens);
    QuantizeRows(stream.view(),
                 DenseDeviceMatrix(x.data(), DType::kBf16, shape.tokens, shape.inputs),
                 activations);
    gemm.MultiplyScaled(stream.view(), activations,
                        scaled(w.data() + call % copies * weight_bytes, w_scales, shape.outputs),
                        DenseDeviceMatrix(y.data(), DType::kBf16, shape.tokens, shape.outputs),
                        shape.accumulation);
  });
  Rate(state, "weight_bytes_per_second", static_cast<double>(weight_bytes));
  Rate(state, "flops_per_second",
       2.0 * static_cast<double>(shape.tokens * shape.outputs * shape.inputs));
}
BENCHMARK(BM_CudaFp8Gemm)
    ->ArgsProduct({{1, 8, 32, 128, 2048}, {6144, 28672}, {4096}, {0}})
    ->ArgsProduct({{1, 8, 32, 128, 2048}, {4096}, {14336}, {0}})
    // Few tokens are bound by the weights' bytes.
    ->ArgsProduct({{128, 2048}, {6144, 28672}, {4096}, {1}})
    ->ArgsProduct({{128, 2048}, {4096}, {14336}, {1}})
    ->Apply(Once);

}  // namespace
}  // namespace twin::kernels::cuda

int main(int argc, char** argv) { return twin::kernels::cuda::RunDeviceBenchmarks(argc, argv); }
