#include <memory>

#include "exec/cuda/cublaslt_provider.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::testing {

void PrepareDevice() {
  cuda_emulation::ResetDevice();
  cuda::SetCublasLtFinder([] {
    return std::make_unique<kernels::cuda::CublasLtLibrary>(cuda_emulation::EmulatedCublasLt());
  });
}

bool DeviceIsExact() { return true; }

}  // namespace twin::exec::testing
