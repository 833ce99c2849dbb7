// Streams and captured graphs of a device, owned.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/event.h"
#include "kernels/cuda/stream.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace twin::exec::cuda {

using kernels::cuda::CheckCuda;
using kernels::cuda::Event;
using kernels::cuda::NanosecondsBetween;
using kernels::cuda::StreamView;

class Stream {
 public:
  enum class Priority : std::uint8_t { kNormal, kHigh };
  explicit Stream(Priority priority = Priority::kNormal);
  // Waits for everything given to it.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] StreamView view() const { return StreamView(stream_); }
  // The calling thread waits for everything given to it.
  void Await() const;

 private:
  CUstream_st* stream_ = nullptr;
};

// Work that was captured once and is replayed with one call. Empty by default.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }

  // Calls `work`, which gives things to the stream: they are captured instead of done. If it
  // throws, the capture is given up.
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
