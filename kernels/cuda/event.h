// Owner of a CUDA event.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// A point in the work of a stream. Move-only.
class Event {
 public:
  // kTimed: for NanosecondsBetween(). kOrder: without a time stamp, which is cheaper to record.
  enum class Kind : std::uint8_t { kTimed, kOrder };
  explicit Event(Kind kind);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  // Marks the completion of all work enqueued on the stream so far.
  void Record(StreamView stream) const;
  // As Record(), on a stream under capture: each replay of the graph records the event again.
  void RecordInGraph(StreamView stream) const;
  // Work enqueued on the stream from now on waits for the event. An event that was never recorded
  // counts as passed.
  void MakeWait(StreamView stream) const;
  // Polls until the event has passed. Throws DeviceError, also for errors of earlier work on the
  // device; HungDevice after kDevicePatience. `what` names the work in the message.
  void Await(const char* what = "work on the device") const;
  [[nodiscard]] bool Passed() const;

  [[nodiscard]] CUevent_st* get() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};

// Nanoseconds from one event to a later one. REQUIRES: both are kTimed and have passed.
// Resolution: 0.5 us.
std::int64_t NanosecondsBetween(const Event& from, const Event& to);

}  // namespace twin::kernels::cuda
