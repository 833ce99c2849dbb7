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
  Random random(1, "benchmark");
  std::vector<std::uint16_t> pattern(std::min(array.size(), std::size_t{4} << 20) / 2);
  for (std::uint16_t& value : pattern) {
    const auto bits = static_cast<unsigned>(random.Next() >> 48);
    value = static_cast<std::uint16_t>((bits & 0x807FU) | 0x3F00U);
  }
  std::size_t filled = pattern.size() * 2;
  CheckCuda(cudaMemcpy(array.data(), pattern.data(), filled, cudaMemcpyHostToDevice), "a copy");
  while (filled < array.size()) {
    const std::size_t more = std::min(filled, array.size() - filled);
    CheckCuda(cudaMemcpy(array.data() + filled, array.data(), more, cudaMemcpyDeviceToDevice),
              "a copy");
    filled += more;
  }
  CheckCuda(cudaDeviceSynchronize(), "filling an array");
}

// Reports the time of one call of `body(i)`, i from 0 on, from replays of a graph of `calls` of
// them, so that the gaps between launches are those of a captured step. Bodies rotate their
// operands by i, so that these come from memory.
template <class Body>
void MeasureInGraph(benchmark::State& state, StreamView stream, int calls, const Body& body) {
  for (int i = 0; i < std::min(calls, 3); ++i) body(i);
  CheckCuda(cudaStreamSynchronize(stream.get()), "warming up");
  CheckCuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "a capture");
  for (int i = 0; i < calls; ++i) body(i);
  cudaGraph_t captured = nullptr;
  CheckCuda(cudaStreamEndCapture(stream.get(), &captured), "a capture");
  cudaGraphExec_t graph = nullptr;
  CheckCuda(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(captured);
  const Event begin(Event::Kind::kTimed);
  const Event end(Event::Kind::kTimed);
  CheckCuda(cudaGraphLaunch(graph, stream.get()), "cudaGraphLaunch");
  for (auto _ : state) {
    begin.Record(stream);
    CheckCuda(cudaGraphLaunch(graph, stream.get()), "cudaGraphLaunch");
    end.Record(stream);
    end.Await();
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    state.SetIterationTime(static_cast<double>(milliseconds) * 1e-3 / calls);
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
