// Moments in streams, owned.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

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

}  // namespace twin::kernels::cuda
