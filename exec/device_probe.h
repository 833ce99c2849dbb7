// Finds the CUDA devices of this machine, and the libraries that connect ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twin::exec {

struct CudaDevice {
  std::string name;
  std::int32_t compute_major = 0;
  std::int32_t compute_minor = 0;
  std::int32_t multiprocessors = 0;
  std::int64_t total_bytes = 0;

  bool operator==(const CudaDevice&) const = default;
};

// Versions in CUDA's encoding: 13000 is 13.0; 0 = not installed.
struct CudaStatus {
  std::vector<CudaDevice> devices;
  std::int32_t driver_version = 0;   // highest CUDA version that the driver supports
  std::int32_t runtime_version = 0;  // what this program was built with
  std::string reason;                // why there is no device; empty if there is one

  [[nodiscard]] bool usable() const { return !devices.empty(); }
};

// The result of looking for a shared library at run time.
struct LibraryStatus {
  std::string version;  // as the library states it
  std::string reason;   // why it cannot be used; empty if it can

  [[nodiscard]] bool usable() const { return reason.empty(); }
};

struct DeviceProbe {
  CudaStatus cuda;
  LibraryStatus nccl;
  LibraryStatus mpi;
};

// Never throws: a missing device or library is reported in the result. In a build without CUDA
// there are no devices, and the reason says so together with what the driver would support. Creates
// no context on a device.
CudaStatus ProbeCuda();
LibraryStatus ProbeNccl();
LibraryStatus ProbeMpi();
inline DeviceProbe ProbeDevices() {
  return {.cuda = ProbeCuda(), .nccl = ProbeNccl(), .mpi = ProbeMpi()};
}

// "13.0" for 13000.
std::string CudaVersionText(std::int32_t version);

}  // namespace twin::exec
