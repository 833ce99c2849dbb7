// Attention on a GPU at the heads of Llama-3-8B, kernel by kernel. Compare kv_bytes_per_second of
// decodes with the device's memory, flops_per_second of prefills with its matrix units.
#include "tests/perf/device_bench.h"
//
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include "kernels/cuda/attention.h"
#include "tests/support/sent_plan.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kBlockSize = 16;
constexpr int kCalls = 16;

int ComputeCapability() {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return 10 * properties.major + properties.minor;
}

// `sequences` equal ones, of `queries` new tokens each, on scattered blocks of as many layers as
// keep the keys and values of one out of the cache.
class Step {
 public:
  Step(std::int64_t sequences, std::int64_t queries, std::int64_t context, std::int64_t kv_heads)
      : queries_(queries),
        kv_heads_(kv_heads),
        pages_((context + kBlockSize - 1) / kBlockSize),
        cache_shape_{.dtype = DType::kBf16,
                     .blocks = sequences * pages_,
                     .layers = 1,
                     .kv_heads = kv_heads,
                     .block_size = kBlockSize,
                     .head_dim = kHeadDim} {
    cache_shape_.layers = std::clamp<std::int64_t>(2 * CacheBytes() / cache_shape_.Bytes(), 1, 64);
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(cache_shape_.blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    Random random(2, "benchmark");
    for (std::size_t i = blocks.size(); i > 1; --i) {
      std::swap(
          blocks[i - 1],
          blocks[static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(i) - 1))]);
    }
    for (std::int64_t s = 0; s <= sequences; ++s) {
      Append(first_query_, s * queries);
      Append(page_begin_, s * pages_);
    }
    for (std::int64_t s = 0; s < sequences; ++s) {
      Append(kv_lengths_, context);
      Append(last_page_tokens_, context - (pages_ - 1) * kBlockSize);
    }
    page_indices_ = blocks;
    Send();
  }

  [[nodiscard]] const KvCacheShape& cache_shape() const { return cache_shape_; }
  [[nodiscard]] std::int64_t rows() const { return first_query_.back(); }

  [[nodiscard]] AttentionWork Work() const {
    AttentionWork work;
    work.sequences = static_cast<std::int64_t>(kv_lengths_.size());
    work.decodes = queries_ == 1 ? work.sequences : 0;
    work.rows = rows();
    work.graph = queries_ == 1;
    work.host = {first_query_.data(), kv_lengths_.data(), page_begin_.data(), page_indices_.data(),
                 last_page_tokens_.data()};
    work.device = device_;
    return work;
  }

 private:
  static void Append(std::vector<std::int32_t>& list, std::int64_t value) {
    list.push_back(static_cast<std::int32_t>(value));
  }
  void Send() {
    std::vector<std::int32_t> all;
    const std::vector<std::int32_t>* const parts[] = {&first_query_, &kv_lengths_, &page_begin_,
                                                      &page_indices_, &last_page_tokens_};
    std::vector<std::size_t> begin;
    for (const auto* const part : parts) {
      begin.push_back(all.size());
      all.insert(all.end(), part->begin(), part->end());
    }
    arrays_ = std::make_unique<DeviceBuffer>(all.size() * sizeof(all[0]), "arrays");
    CheckCuda(cudaMemcpy(arrays_->data(), all.data(), arrays_->size(), cudaMemcpyHostToDevice),
              "a copy");
    CheckCuda(cudaDeviceSynchronize(), "a copy");
    const auto* const base = reinterpret_cast<const std::int32_t*>(arrays_->data());
    device_ = {base + begin[0], base + begin[1], base + begin[2], base + begin[3], base + begin[4]};
  }

  std::int64_t queries_;
  std::int64_t kv_heads_;
  std::int64_t pages_;
  KvCacheShape cache_shape_;
  std::vector<std::int32_t> first_query_;
  std::vector<std::int32_t> kv_lengths_;
  std::vector<std::int32_t> page_begin_;
  std::vector<std::int32_t> page_indices_;
  std::vector<std::int32_t> last_page_tokens_;
  std::unique_ptr<DeviceBuffer> arrays_;
  AttentionArrays device_;
};

void Measure(benchmark::State& state, const AttentionShape& shape, const AttentionChoice& choice,
             const Step& step) {
  std::size_t free = 0;
  std::size_t total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (static_cast<std::size_t>(step.cache_shape().Bytes()) > free / 10 * 9) {
    state.SkipWithError("the device's memory is too small");
    return;
  }
  const BenchStream stream;
  const std::int64_t width = shape.heads * shape.head_dim;
  const DeviceBuffer cache(static_cast<std::size_t>(step.cache_shape().Bytes()), "a cache");
  const DeviceBuffer q(static_cast<std::size_t>(step.rows() * width * 2), "queries");
  const DeviceBuffer out(static_cast<std::size_t>(step.rows() * width * 2), "results");
  FillWithNumbers(cache);
  FillWithNumbers(q);
  const AttentionWork work = step.Work();
  PagedAttention attention(shape, choice, work.rows, work.sequences);
  SentPlan plan;
  plan.Plan(stream.view(), attention, work);
  MeasureInGraph(state, stream.view(), kCalls, [&](int call) {
    attention.Run(stream.view(), DenseDeviceMatrix(q.data(), DType::kBf16, work.rows, width),
                  {cache.data(), step.cache_shape()}, call % step.cache_shape().layers, 0,
                  DenseDeviceMatrix(out.data(), DType::kBf16, work.rows, width));
  });
}

AttentionShape Shape(std::int64_t kv_heads) {
  return {.heads = kHeads,
          .kv_heads = kv_heads,
          .head_dim = kHeadDim,
          .block_size = kBlockSize,
          .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)),
          .windows = {0}};
}

bool Skip(benchmark::State& state, AttentionKernel kernel, const AttentionShape& shape) {
  const std::string why = WhyNotAttention(kernel, shape, ComputeCapability());
  if (!why.empty()) state.SkipWithError(why.c_str());
  return !why.empty();
}

// Arguments: kernel, key heads, sequences, tokens of each.
void BM_CudaDecodeAttention(benchmark::State& state) {
  const auto kernel = static_cast<AttentionKernel>(state.range(0));
  const AttentionShape shape = Shape(state.range(1));
  state.SetLabel(std::string(Name(kernel)));
  if (Skip(state, kernel, shape)) return;
  const Step step(state.range(2), 1, state.range(3), shape.kv_heads);
  Measure(state, shape, {.decode = kernel, .prefill = AttentionKernel::kGeneric}, step);
  const double kv_bytes = 2.0 * static_cast<double>(state.range(2) * state.range(3)) *
                          static_cast<double>(shape.kv_heads * shape.head_dim * 2);
  Rate(state, "kv_bytes_per_second", kv_bytes);
}

// Arguments: kernel, sequences, new tokens of each, tokens before them.
void BM_CudaPrefillAttention(benchmark::State& state) {
  const auto kernel = static_cast<AttentionKernel>(state.range(0));
  const AttentionShape shape = Shape(8);
  state.SetLabel(std::string(Name(kernel)));
  if (Skip(state, kernel, shape)) return;
  const std::int64_t queries = state.range(2);
  const std::int64_t before = state.range(3);
  const Step step(state.range(1), queries, queries + before, shape.kv_heads);
  Measure(state, shape,
          {.decode = AttentionKernel::kGeneric, .prefill = kernel, .fa3_queries_min = 1}, step);
  const double keys = static_cast<double>(queries) *
                      (static_cast<double>(before) + static_cast<double>(queries + 1) / 2);
  Rate(state, "flops_per_second",
       4.0 * static_cast<double>(state.range(1) * kHeads * kHeadDim) * keys);
}

std::int64_t Number(AttentionKernel kernel) { return static_cast<std::int64_t>(kernel); }

void DecodeGrid(benchmark::internal::Benchmark* benchmark) {
  for (const AttentionKernel kernel :
       {AttentionKernel::kFa2, AttentionKernel::kCudaCore, AttentionKernel::kGeneric}) {
    for (const std::int64_t kv_heads : {8, 32}) {
      for (const std::int64_t sequences : {1, 8, 32, 256}) {
        for (const std::int64_t context : {1024, 4096, 16384}) {
          if (sequences * context > (std::int64_t{1} << 19)) continue;
          if (kernel == AttentionKernel::kGeneric && context > 4096) continue;
          benchmark->Args({Number(kernel), kv_heads, sequences, context});
        }
      }
    }
  }
}
BENCHMARK(BM_CudaDecodeAttention)->Apply(DecodeGrid)->Apply(Once);

void PrefillGrid(benchmark::internal::Benchmark* benchmark) {
  for (const AttentionKernel kernel : {AttentionKernel::kFa2, AttentionKernel::kFa3}) {
    for (const std::int64_t queries : {2048, 8192, 512, 16, 64, 128, 256, 1024}) {
      for (const std::int64_t before : {0, 4096}) {
        benchmark->Args({Number(kernel), 1, queries, before});
      }
    }
    benchmark->Args({Number(kernel), 8, 512, 1024});
  }
}
BENCHMARK(BM_CudaPrefillAttention)->Apply(PrefillGrid)->Apply(Once);

}  // namespace
}  // namespace twin::kernels::cuda

int main(int argc, char** argv) { return twin::kernels::cuda::RunDeviceBenchmarks(argc, argv); }
