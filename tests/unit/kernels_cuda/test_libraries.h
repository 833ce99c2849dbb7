// Libraries and memory for tests that run on a device and on the emulated one.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/device_memory.h"

namespace twin::kernels::cuda {

// The machine's cuBLASLt, or the emulated one.
const CublasLtLibrary& TestCublasLt();

// The attention kernels to be tested: all of them, or those that can be emulated.
std::vector<AttentionKernel> TestedAttentionKernels();

// Fills and copies from pageable memory may return before the device has made them, and streams
// that do not block would not wait for them.
inline void AwaitDevice() { CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

// Values on the device.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::span<const T> values) : array_(values.size_bytes(), "test values") {
    Set(values);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(std::span<const T>(values)) {}
  explicit OnDevice(std::size_t count) : array_(count * sizeof(T), "test values") {
    CheckCuda(cudaMemset(array_.data(), 0xFF, array_.size()), "cudaMemset");
    AwaitDevice();
  }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(array_.data()); }
  void Set(std::span<const T> values) {
    CheckCuda(cudaMemcpy(array_.data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
              "cudaMemcpy");
    AwaitDevice();
  }
  // Waits for everything on the device.
  [[nodiscard]] std::vector<T> Get() const {
    AwaitDevice();
    std::vector<T> values(array_.size() / sizeof(T));
    CheckCuda(cudaMemcpy(values.data(), array_.data(), array_.size(), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return values;
  }

 private:
  DeviceBuffer array_;
};

class TestStream {
 public:
  TestStream() {
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  [[nodiscard]] StreamView view() const { return StreamView(stream_); }
  void Wait() const { CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// What `body` gives to the stream, as a graph.
class TestGraph {
 public:
  template <class Body>
  TestGraph(StreamView stream, const Body& body) {
    CheckCuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    body();
    cudaGraph_t graph = nullptr;
    CheckCuda(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    CheckCuda(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
  }
  ~TestGraph() { cudaGraphExecDestroy(graph_); }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;

  void Launch(StreamView stream) const {
    CheckCuda(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace twin::kernels::cuda
