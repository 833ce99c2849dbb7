// Timing what is given to a device's stream, for benchmarks on a GPU.
#pragma once

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/random.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/event.h"

namespace twin::kernels::cuda {

constexpr int kSkipped = 77;

// Main of a benchmark: 77 and one line where there is no GPU.
inline int RunDeviceBenchmarks(int argc, char** argv) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(error));
    return kSkipped;
  }
  benchmark::Initialize(&argc, argv);
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  benchmark::AddCustomContext("device", properties.name);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

class BenchStream {
 public:
  BenchStream() {
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~BenchStream() { cudaStreamDestroy(stream_); }
  BenchStream(const BenchStream&) = delete;
  BenchStream& operator=(const BenchStream&) = delete;

  [[nodiscard]] StreamView view() const { return StreamView(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// 16-bit numbers between 0.5 and 1 or -0.5 and -1 in bf16. Zeros would take less power, and less
// time.
inline void FillWithNumbers(const DeviceBuffer& array) {
  static const std::vector<std::uint16_t> pattern = [] {
    Random random(1, "benchmark");
    std::vector<std::uint16_t> values(std::size_t{2} << 20);
    for (std::uint16_t& value : values) {
      const auto bits = static_cast<unsigned>(random.Next() >> 48);
      value = static_cast<std::uint16_t>((bits & 0x807FU) | 0x3F00U);
    }
    return values;
  }();
  std::size_t filled = std::min(array.size(), pattern.size() * 2);
  CheckCuda(cudaMemcpy(array.data(), pattern.data(), filled, cudaMemcpyHostToDevice), "a copy");
  while (filled < array.size()) {
    const std::size_t more = std::min(filled, array.size() - filled);
    CheckCuda(cudaMemcpy(array.data() + filled, array.data(), more, cudaMemcpyDeviceToDevice),
              "a copy");
    filled += more;
  }
  CheckCuda(cudaDeviceSynchronize(), "filling an array");
}

constexpr double kReplaySeconds = 0.002;
constexpr std::size_t kReplaysMin = 3;

// Every benchmark runs once: its set-up would be repeated for each number of iterations that the
// library tries. MeasureInGraph() repeats what is measured.
inline void Once(benchmark::internal::Benchmark* benchmark) {
  benchmark->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

// Reports the time of one call of `body(i)`, i from 0 on: the median of replays, in at least 2 ms,
// of a graph of `calls` of them, so that the gaps between launches are those of a captured step.
// Bodies rotate their operands by i, so that these come from memory. REQUIRES: the benchmark is
// Once().
template <class Body>
void MeasureInGraph(benchmark::State& state, StreamView stream, int calls, const Body& body) {
  const Event begin(Event::Kind::kTimed);
  const Event end(Event::Kind::kTimed);
  const auto timed = [&](const auto& work) {
    begin.Record(stream);
    work();
    end.Record(stream);
    end.Await("a benchmark");
    return static_cast<double>(NanosecondsBetween(begin, end)) * 1e-9;
  };
  body(0);  // loads the kernels
  const double once = timed([&] { body(1); });
  // Few calls of what takes long by itself: gaps between launches do not matter there.
  calls = std::clamp(static_cast<int>(4 * kReplaySeconds / std::max(once, 1e-9)), 3, calls);
  CheckCuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "a capture");
  for (int i = 0; i < calls; ++i) body(i);
  cudaGraph_t captured = nullptr;
  CheckCuda(cudaStreamEndCapture(stream.get(), &captured), "a capture");
  cudaGraphExec_t graph = nullptr;
  CheckCuda(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(captured);
  const auto replay = [&] {
    return timed([&] { CheckCuda(cudaGraphLaunch(graph, stream.get()), "cudaGraphLaunch"); });
  };
  replay();  // warms up
  for (auto _ : state) {
    std::vector<double> seconds;
    for (double total = 0; total < kReplaySeconds || seconds.size() < kReplaysMin;) {
      total += seconds.emplace_back(replay());
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    state.SetIterationTime(*middle / calls);
  }
  cudaGraphExecDestroy(graph);
}

inline void Rate(benchmark::State& state, const char* name, double per_call) {
  state.counters[name] =
      benchmark::Counter(per_call, benchmark::Counter::kIsIterationInvariantRate);
}

inline std::int64_t CacheBytes() {
  int bytes = 0;
  CheckCuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0), "asking for the cache");
  return bytes;
}

}  // namespace twin::kernels::cuda
