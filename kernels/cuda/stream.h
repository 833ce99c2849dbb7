// A borrowed CUDA stream, and the errors of the device. Needs no CUDA header.
#pragma once

#include <stdexcept>
#include <string>

struct CUstream_st;
struct CUevent_st;

namespace twin::kernels::cuda {

// The order in which a device carries out what it is given. Never made from a null pointer or a
// number by accident, as a cudaStream_t could be.
class StreamView {
 public:
  explicit StreamView(CUstream_st* stream) : stream_(stream) {}
  [[nodiscard]] CUstream_st* get() const { return stream_; }
  bool operator==(const StreamView&) const = default;

 private:
  CUstream_st* stream_;
};

// A call or a kernel failed: "cudaMalloc of 12.0 GB: out of memory", one line. Of errors that a
// kernel causes, the place is where they were noticed.
class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& what, const std::string& why, bool out_of_memory = false)
      : std::runtime_error(what + ": " + why), out_of_memory_(out_of_memory) {}
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }

 private:
  bool out_of_memory_;
};

// Throws DeviceError unless `code` (a cudaError_t) is success. `what` says what was tried.
void CheckCuda(int code, const char* what);

}  // namespace twin::kernels::cuda
