// Borrowed view of a CUDA stream, and the exception for device errors. Needs no CUDA header.
#pragma once

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

// Throws DeviceError unless `code` (a cudaError_t) is success. `what` names the failed call in the
// message.
void CheckCuda(int code, const char* what);

}  // namespace twin::kernels::cuda
