#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "exec/comm/agreement.h"
#include "exec/cuda/nccl_communicator.h"
#include "exec/cuda/staged_communicator.h"

namespace twin::exec::cuda {
namespace {

// Identifies the host and the current device. NCCL does not support two ranks on one device.
std::string DevicePlace() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::array<char, 64> bus{};
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device),
            "cudaDeviceGetPCIBusId");
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string place = std::string(host.data()) + " " + bus.data() + " ";
  // The UUID distinguishes the MIG instances of one device.
  for (const char byte : properties.uuid.bytes) {
    place += std::to_string(static_cast<unsigned char>(byte)) + ".";
  }
  return place;
}

bool AllEqual(const std::vector<std::string>& texts) {
  return std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end();
}

bool AllDiffer(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return std::adjacent_find(texts.begin(), texts.end()) == texts.end();
}

}  // namespace

std::unique_ptr<DeviceCommunicator> ConnectDevices(Communicator& host) {
  const std::shared_ptr<const NcclLibrary> library = FindNccl();
  const std::vector<std::string> versions = GatherTexts(host, library->version());
  const std::vector<std::string> places = GatherTexts(host, DevicePlace());
  if (library->usable() && AllEqual(versions) && AllDiffer(places)) {
    return std::make_unique<NcclCommunicator>(library, host);
  }
  return std::make_unique<StagedCommunicator>(host);
}

}  // namespace twin::exec::cuda
