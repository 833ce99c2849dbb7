// NCCL on emulated devices: ranks are threads of this process, each with an emulated device of its
// own.
#pragma once

#include <chrono>

#include "exec/cuda/nccl_library.h"

namespace twin::cuda_emulation {

// The table of a library of version 2.28.9. As the real one it refuses two ranks on one device,
// joins and leaves groups in the background if the configuration says so, takes memory of the
// device alone, and carries collectives out in the order of streams: a rank that waits for its
// stream waits there for the others. Ranks that call different things, or with different sizes,
// make the group fail. A message waits for its receiver.
exec::cuda::NcclFunctions EmulatedNccl();

// How long an operation waits for other ranks before the group fails with ncclRemoteError; the real
// library waits for ever. 10 s unless set.
void SetNcclPatience(std::chrono::milliseconds patience);

// Groups' ends that are neither destroyed nor aborted.
int LiveNcclEnds();

}  // namespace twin::cuda_emulation
