// Owners of CUDA streams and captured graphs.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/event.h"
#include "kernels/cuda/stream.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace twin::exec::cuda {

using kernels::cuda::AwaitStream;
using kernels::cuda::AwaitStreamQuietly;
using kernels::cuda::CheckCuda;
using kernels::cuda::Event;
using kernels::cuda::NanosecondsBetween;
using kernels::cuda::StreamView;

class Stream {
 public:
  enum class Priority : std::uint8_t { kNormal, kHigh };
  explicit Stream(Priority priority = Priority::kNormal);
  // Waits for all enqueued work.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] StreamView view() const { return StreamView(stream_); }
  // Blocks the calling thread until all enqueued work has finished.
  void Await() const;

 private:
  CUstream_st* stream_ = nullptr;
};

// A captured graph, replayed with one call. Empty by default. Move-only.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }

  // Calls `work` and captures what it enqueues on the stream, without executing it. If `work`
  // throws, the capture is ended and the exception is rethrown.
  template <class Work>
  static Graph Capture(StreamView stream, const Work& work) {
    Begin(stream);
    try {
      work();
    } catch (...) {
      GiveUp(stream);
      throw;
    }
    return End(stream);
  }

  [[nodiscard]] bool empty() const { return graph_ == nullptr; }
  void Launch(StreamView stream) const;

 private:
  static void Begin(StreamView stream);
  static void GiveUp(StreamView stream);
  static Graph End(StreamView stream);

  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace twin::exec::cuda
