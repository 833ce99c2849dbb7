// Controls whether a kernel may start before the previous kernel of its stream has finished.
#pragma once

namespace twin::kernels::cuda {

// True if the calling thread's current device supports programmatic dependent launches, that is,
// from compute capability 9.0 on. The environment's TWIN_KERNEL_OVERLAP=0 makes it false, to work
// around a driver. Queries the driver once per device. Throws DeviceError.
bool KernelsOverlap();

// Makes KernelsOverlap() false on the calling thread during its lifetime. Used when events between
// kernels measure their times: with overlap, part of a kernel's time would count for the next one.
class KernelsApart {
 public:
  KernelsApart();
  ~KernelsApart();
  KernelsApart(const KernelsApart&) = delete;
  KernelsApart& operator=(const KernelsApart&) = delete;
};

}  // namespace twin::kernels::cuda
