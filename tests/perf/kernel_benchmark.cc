// Rates of the CPU kernels at the shapes of a model of 100 million weights (hidden 768,
// feed-forward 2048, vocabulary 32000) and of Llama-3.2-1B. Weights are rotated over more memory
// than the caches hold, so that they stream as in a model. Compare flops_per_second with
// BM_FmaCeiling (bf16: BM_Bf16Ceiling) and weight_bytes_per_second with BM_ReadCeiling.
//
// Environment: TWIN_BENCHMARK_THREADS (all usable cores), TWIN_BENCHMARK_SET (portable, avx2,
// avx512 or avx512_bf16; the best).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/activation.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"
#include "kernels/paged_attention.h"
#include "kernels/sampling.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

constexpr std::int64_t kRotatedBytes = std::int64_t{256} << 20;

ThreadPool MakePool() {
  const CpuFeatures cpu = DetectCpu();
  const char* threads = std::getenv("TWIN_BENCHMARK_THREADS");
  const char* wanted = std::getenv("TWIN_BENCHMARK_SET");
  InstructionSet set = BestInstructionSet();
  for (const InstructionSet each : UsableInstructionSets(cpu)) {
    if (wanted != nullptr && Name(each) == wanted) set = each;
  }
  return ThreadPool(threads != nullptr ? std::atoi(threads) : cpu.usable_cores, set);
}

ThreadPool& Pool() {
  static ThreadPool pool = MakePool();
  return pool;
}

std::vector<float> RandomFloats(std::int64_t count) {
  Random random(1, "benchmark");
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.UniformReal(-1, 1));
  return values;
}

void Rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
}

DType FormatOf(const benchmark::State& state) { return static_cast<DType>(state.range(0)); }

// Arguments: format, tokens, outputs, inputs.
void BM_Gemm(benchmark::State& state) {
  const std::int64_t tokens = state.range(1);
  const std::int64_t outputs = state.range(2);
  const std::int64_t inputs = state.range(3);
  const std::vector<float> values = RandomFloats(outputs * inputs);
  std::vector<WeightMatrix> weights;
  std::int64_t bytes = 0;
  do {
    weights.emplace_back(FormatOf(state), outputs, inputs);
    weights.back().Fill(Pool(), 0,
                        {.data = reinterpret_cast<const std::byte*>(values.data()),
                         .rows = outputs,
                         .row_stride = inputs});
    bytes += weights.back().bytes();
  } while (bytes < kRotatedBytes);
  std::vector<float> x = RandomFloats(tokens * inputs);
  std::vector<float> y(static_cast<std::size_t>(tokens * outputs));
  std::size_t turn = 0;
  for (auto _ : state) {
    Gemm(Pool(), DenseMatrix<const float>(x.data(), tokens, inputs), weights[turn].view(), {},
         DenseMatrix(y.data(), tokens, outputs));
    benchmark::ClobberMemory();
    turn = (turn + 1) % weights.size();
  }
  state.SetLabel(std::string(Name(FormatOf(state))));
  Rate(state, "flops_per_second", 2.0 * static_cast<double>(tokens * outputs * inputs));
  Rate(state, "weight_bytes_per_second", static_cast<double>(weights[0].bytes()));
}

void GemmShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"format", "tokens", "outputs", "inputs"});
  for (const DType format : {DType::kFp32, DType::kBf16, DType::kInt8, DType::kInt4}) {
    for (const std::int64_t tokens : {1, 4, 8, 16, 32, 128, 512}) {
      for (const auto& [outputs, inputs] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {1280, 768}, {4096, 768}, {768, 2048}, {32000, 768}, {16384, 2048}, {2048, 8192}}) {
        benchmark->Args({static_cast<std::int64_t>(format), tokens, outputs, inputs});
      }
    }
  }
}
BENCHMARK(BM_Gemm)->Apply(GemmShapes)->UseRealTime();

// Arguments: bf16 cache, sequences, queries, context.
void BM_Attention(benchmark::State& state) {
  const std::int64_t sequences = state.range(1);
  const std::int64_t queries = state.range(2);
  const std::int64_t context = state.range(3);
  const KvCacheShape shape = {.dtype = state.range(0) != 0 ? DType::kBf16 : DType::kFp32,
                              .blocks = sequences * (context / 16),
                              .layers = 4,
                              .kv_heads = 8,
                              .block_size = 16,
                              .head_dim = 64};
  constexpr std::int64_t kWidth = 32 * 64;
  AlignedBuffer memory(static_cast<std::size_t>(shape.Bytes()));
  std::vector<std::int32_t> first_query = {0};
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> tables;
  for (std::int64_t s = 0; s < sequences; ++s) {
    first_query.push_back(static_cast<std::int32_t>((s + 1) * queries));
    lengths.push_back(static_cast<std::int32_t>(context));
    for (std::int64_t b = 0; b < context / 16; ++b) {
      tables.push_back(static_cast<std::int32_t>(b * sequences + s));
    }
  }
  std::vector<float> q = RandomFloats(sequences * queries * kWidth);
  std::vector<float> out(q.size());
  std::int64_t layer = 0;
  for (auto _ : state) {
    PagedAttention(Pool(), DenseMatrix<const float>(q.data(), sequences * queries, kWidth),
                   {.first_query = first_query,
                    .kv_lengths = lengths,
                    .block_tables = tables,
                    .table_stride = context / 16},
                   {memory.data(), shape}, layer, {.scale = 0.125F},
                   DenseMatrix(out.data(), sequences * queries, kWidth));
    benchmark::ClobberMemory();
    layer = (layer + 1) % shape.layers;
  }
  const double pairs = static_cast<double>(queries * (2 * context - queries + 1)) / 2;
  Rate(state, "flops_per_second", static_cast<double>(sequences) * pairs * 4 * kWidth);
  Rate(state, "cache_bytes_per_second",
       static_cast<double>(sequences * context * 2 * shape.kv_heads * shape.RowBytes()));
}
BENCHMARK(BM_Attention)
    ->ArgNames({"bf16", "sequences", "queries", "context"})
    ->ArgsProduct({{0, 1}, {1, 16}, {1}, {512, 4096}})
    ->ArgsProduct({{0, 1}, {1}, {512}, {512, 2048}})
    ->UseRealTime();

void BM_RmsNorm(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  std::vector<float> x = RandomFloats(tokens * 2048);
  std::vector<float> y(x.size());
  const std::vector<float> gain = RandomFloats(2048);
  for (auto _ : state) {
    RmsNorm(Pool(), DenseMatrix<const float>(x.data(), tokens, 2048), gain, 1e-5F,
            DenseMatrix(y.data(), tokens, 2048));
    benchmark::ClobberMemory();
  }
  Rate(state, "elements_per_second", static_cast<double>(x.size()));
}
BENCHMARK(BM_RmsNorm)->Arg(1)->Arg(16)->Arg(512)->UseRealTime();

void BM_ActivateGated(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  std::vector<float> x = RandomFloats(tokens * 4096);
  std::vector<float> y(static_cast<std::size_t>(tokens * 2048));
  const MatrixView<const float> both = DenseMatrix<const float>(x.data(), tokens, 4096);
  for (auto _ : state) {
    ActivateGated(Pool(), Activation::kSilu, both.Columns(0, 2048), both.Columns(2048, 2048),
                  DenseMatrix(y.data(), tokens, 2048));
    benchmark::ClobberMemory();
  }
  Rate(state, "elements_per_second", static_cast<double>(y.size()));
}
BENCHMARK(BM_ActivateGated)->Arg(1)->Arg(16)->Arg(512)->UseRealTime();

// Argument: top_k; -1 for greedy.
void BM_SampleToken(benchmark::State& state) {
  const std::vector<float> logits = RandomFloats(128256);
  SamplingParameters parameters = {.temperature = state.range(0) < 0 ? 0.0F : 1.0F,
                                   .top_k = static_cast<std::int32_t>(state.range(0)),
                                   .top_p = 0.9F};
  if (state.range(0) < 0) parameters.top_k = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(SampleToken(logits, parameters));
    ++parameters.position;
  }
}
BENCHMARK(BM_SampleToken)->Arg(-1)->Arg(50)->Arg(0);

void BM_ParallelForLatency(benchmark::State& state) {
  for (auto _ : state) {
    Pool().ParallelFor(Pool().threads(), 1, [](std::int64_t begin, std::int64_t, std::int32_t) {
      benchmark::DoNotOptimize(begin);
    });
  }
}
BENCHMARK(BM_ParallelForLatency)->UseRealTime();

// The microkernel on operands that stay in the first-level cache: what Gemm could reach at most.
// `multiply` calls the tile's kernel on a panel. A word of x takes part in
// `products_per_word` products for each output.
template <class Multiply>
void MeasureTile(benchmark::State& state, int products_per_word, const Multiply& multiply) {
  const VectorKernels& kernels = KernelsFor(Pool().instruction_set());
  constexpr std::int64_t kDepth = 64;
  constexpr std::int64_t kRepeats = 1000;
  const std::int64_t rows = kernels.tile_rows;
  for (auto _ : state) {
    Pool().ParallelFor(Pool().threads(), 1, [&](std::int64_t, std::int64_t, std::int32_t thread) {
      float* x = Pool().scratch(thread).Reserve<float>(3 * rows * kTileStride + 4096);
      float* panel = x + rows * kTileStride;
      float* y = panel + kDepth * kPanelColumns;
      for (std::int64_t i = 0; i < kRepeats; ++i) {
        multiply(kernels,
                 Tile{.rows = rows,
                      .x = x,
                      .depth = kDepth,
                      .y = y,
                      .y_stride = kPanelColumns,
                      .ahead = panel,
                      .ahead_step = 0},
                 panel);
      }
    });
  }
  Rate(state, "flops_per_second",
       2.0 * products_per_word *
           static_cast<double>(Pool().threads() * kRepeats * rows * kDepth * kPanelColumns));
}

void BM_FmaCeiling(benchmark::State& state) {
  MeasureTile(state, 1, [](const VectorKernels& kernels, const Tile& tile, const float* panel) {
    kernels.fp32_tile(tile, panel);
  });
}
BENCHMARK(BM_FmaCeiling)->UseRealTime();

void BM_Bf16Ceiling(benchmark::State& state) {
  if (KernelsFor(Pool().instruction_set()).bf16_pairs_tile == nullptr) {
    return state.SkipWithError("this instruction set multiplies no pairs of bf16");
  }
  MeasureTile(state, 2, [](const VectorKernels& kernels, const Tile& tile, const float* panel) {
    kernels.bf16_pairs_tile(tile, reinterpret_cast<const std::uint16_t*>(panel));
  });
}
BENCHMARK(BM_Bf16Ceiling)->UseRealTime();

// Reading memory and nothing else: what a decode could reach at most.
void BM_ReadCeiling(benchmark::State& state) {
  AlignedBuffer memory(static_cast<std::size_t>(kRotatedBytes));
  for (auto _ : state) {
    Pool().ParallelFor(
        kRotatedBytes, 1 << 20, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
          // The C library reads with the widest vectors there are.
          benchmark::DoNotOptimize(
              std::memchr(memory.data() + begin, 1, static_cast<std::size_t>(end - begin)));
        });
  }
  Rate(state, "bytes_per_second", static_cast<double>(kRotatedBytes));
}
BENCHMARK(BM_ReadCeiling)->UseRealTime();

}  // namespace
}  // namespace twin::kernels
