// Streams, events and captured graphs of a device, owned.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/stream.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace twin::exec::cuda {

using kernels::cuda::CheckCuda;
using kernels::cuda::StreamView;

// A moment in a stream.
class Event {
 public:
  // With a time, moments can be told apart by Between(); without, recording is cheaper.
  enum class Kind : std::uint8_t { kTimed, kOrder };
  explicit Event(Kind kind);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  // Becomes the moment at which everything given to the stream so far is done.
  void Record(StreamView stream) const;
  // The same, to be recorded anew at each replay of the graph that the stream is captured into.
  void RecordInGraph(StreamView stream) const;
  // What is given to the stream from now on waits for it. One never recorded has passed.
  void MakeWait(StreamView stream) const;
  // The calling thread waits for it. Throws what the device found wrong until then.
  void Await() const;
  [[nodiscard]] bool Passed() const;

  [[nodiscard]] CUevent_st* get() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};

// Nanoseconds from one timed moment to a later one; both have passed. Resolution: 0.5 us.
std::int64_t NanosecondsBetween(const Event& from, const Event& to);

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
