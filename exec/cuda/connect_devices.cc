#include "exec/cuda/staged_communicator.h"

namespace twin::exec::cuda {

std::unique_ptr<DeviceCommunicator> ConnectDevices(Communicator& host) {
  return std::make_unique<StagedCommunicator>(host);
}

}  // namespace twin::exec::cuda
