// Whether a device starts kernels before the ones in front of them are done.
#pragma once

namespace twin::kernels::cuda {

// True on the calling thread's device if it knows programmatic dependent launches: compute
// capability 9.0 and newer. Asked of the driver once per device. Throws DeviceError.
bool KernelsOverlap();

}  // namespace twin::kernels::cuda
