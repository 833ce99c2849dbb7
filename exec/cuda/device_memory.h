// Imports the owners of device and pinned memory into this namespace.
#pragma once

#include "kernels/cuda/device_memory.h"

namespace twin::exec::cuda {

using kernels::cuda::CurrentDeviceMemory;
using kernels::cuda::DeviceBuffer;
using kernels::cuda::DeviceMemory;
using kernels::cuda::PinnedBuffer;

}  // namespace twin::exec::cuda
