// Borrowed view of a CUDA stream, and the exception for device errors. Needs no CUDA header.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

struct CUstream_st;
struct CUevent_st;

namespace twin::kernels::cuda {

// A borrowed stream: the device executes its work in the order in which it was enqueued. Unlike a
// cudaStream_t, it is not implicitly constructed from null or a number.
class StreamView {
 public:
  explicit StreamView(CUstream_st* stream) : stream_(stream) {}
  [[nodiscard]] CUstream_st* get() const { return stream_; }
  bool operator==(const StreamView&) const = default;

 private:
  CUstream_st* stream_;
};

// A call or a kernel failed. The message is one line: "cudaMalloc of 12.0 GB: out of memory". A
// failed kernel is reported by the call that notices the error, which may be a later one.
class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& what, const std::string& why, bool out_of_memory = false)
      : std::runtime_error(what + ": " + why), out_of_memory_(out_of_memory) {}
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }

 private:
  bool out_of_memory_;
};

// The longest that a wait for a device may take: no step of a model takes as long.
constexpr std::chrono::seconds kDevicePatience{30};

// The device was not done within the limit. From then on nothing waits for it any more: destructors
// do not free its memory, and exit() ends the process without the CUDA runtime's own clean-up,
// which would wait.
class HungDevice : public DeviceError {
 public:
  // "`what`: not done within 30 s; the device hangs"
  explicit HungDevice(const std::string& what);
};
// True once a wait of this process has exceeded its limit.
bool DeviceHangs();
// For tests: sets another limit, and forgets that a device has hung.
void SetDevicePatience(std::chrono::milliseconds limit);

// Calls `done` without pause until it returns true. Throws HungDevice after the limit.
void AwaitDevice(const char* what, const std::function<bool()>& done);
// Waits for the work enqueued on the stream. Throws DeviceError, also HungDevice.
void AwaitStream(StreamView stream, const char* what);
// Waits as AwaitStream() does, for destructors: ignores errors, and returns at once if the device
// hangs.
void AwaitStreamQuietly(StreamView stream) noexcept;

// Throws DeviceError unless `code` (a cudaError_t) is success. `what` names the failed call in the
// message.
void CheckCuda(int code, const char* what);

}  // namespace twin::kernels::cuda
