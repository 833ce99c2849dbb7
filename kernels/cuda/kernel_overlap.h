// Whether a device starts kernels before the ones in front of them are done.
#pragma once

namespace twin::kernels::cuda {

// True on the calling thread's device if it knows programmatic dependent launches: compute
// capability 9.0 and newer. Asked of the driver once per device. Throws DeviceError.
bool KernelsOverlap();

// While one lives, KernelsOverlap() is false on the thread that made it: for kernels with moments
// recorded between them, each of which would end in the next one's time.
class KernelsApart {
 public:
  KernelsApart();
  ~KernelsApart();
  KernelsApart(const KernelsApart&) = delete;
  KernelsApart& operator=(const KernelsApart&) = delete;
};

}  // namespace twin::kernels::cuda
