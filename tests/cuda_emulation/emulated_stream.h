// Streams, events, captures and graphs of an emulated device.
#pragma once

#include <driver_types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace twin::cuda_emulation {

// A piece of work that a stream carries out.
struct Operation {
  template <class Run>
  Operation(Run body) : run(std::move(body)) {}  // NOLINT(google-explicit-constructor)

  std::function<void()> run;
  // Set for a kernel that may start before the kernel in front of it has ended (programmatic stream
  // serialization): runs its first part and returns the rest.
  std::function<std::function<void()>()> start;
  bool is_kernel = false;  // ours, or a library's
};

struct Capture;

// Operations in the order in which they were given; carried out by whoever waits. Thread-safe.
class Stream {
 public:
  // The operation's number, counted from 1.
  std::uint64_t Enqueue(Operation operation);
  // Carries out all operations up to that number, or waits until other threads have.
  void DrainTo(std::uint64_t number);
  void Drain() { DrainTo(enqueued()); }
  [[nodiscard]] std::uint64_t enqueued() const;

  // These belong to the device's lock (emulated_state.h).
  bool blocking = true;  // ordered with the default stream
  int device = 0;
  std::shared_ptr<Capture> capture;

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::deque<Operation> waiting_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t completed_ = 0;
  bool busy_ = false;  // a thread carries one out
};

using StreamPointer = std::shared_ptr<Stream>;

// The CPU time that the operations of a device's streams have taken. Events record it, so other
// programs of the machine do not lengthen the times between them. Time in which the device has
// nothing to do does not count.
std::chrono::nanoseconds BusyTime(int device);

// One cudaEventRecord.
struct Recording {
  std::weak_ptr<Stream> stream;  // destroyed behind its last operation
  std::uint64_t number = 0;      // of the operation that records
  std::mutex mutex;
  bool done = false;
  std::chrono::nanoseconds time{0};  // BusyTime of the stream's device

  void Wait() {
    if (const StreamPointer alive = stream.lock()) alive->DrainTo(number);
  }
};

struct Event {
  bool has_time = true;
  std::shared_ptr<Recording> recording;
  // Recorded under capture last: what of that capture it stands for.
  std::shared_ptr<Capture> capture;
  std::map<Stream*, std::uint64_t> seen;
};

using EventPointer = std::shared_ptr<Event>;

// A part of a graph: an operation, or the recording of an event for waiters outside.
struct GraphPart {
  Operation operation;
  EventPointer event;
};

// A capture that goes on. Parts are kept in the order of the calls, which is one that the captured
// dependencies allow.
struct Capture {
  Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  std::vector<GraphPart> parts;
  Stream* last = nullptr;  // gave the last part and has waited for nothing since
  // Of each stream: how many parts it gave, and how many of each stream come before its next one.
  std::map<Stream*, std::uint64_t> given;
  std::map<Stream*, std::map<Stream*, std::uint64_t>> seen;

  void Add(Stream* stream, GraphPart part);
  // True if all parts come before what the origin does next.
  bool Joined();
};

}  // namespace twin::cuda_emulation
