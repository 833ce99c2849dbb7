#include "exec/device_probe.h"

#include "exec/shared_library.h"

namespace twin::exec {

CudaStatus ProbeCuda() {
  CudaStatus status;
  const SharedLibrary driver("libcuda.so.1");
  auto* const get_version = driver.Find<int(int*)>("cuDriverGetVersion");
  int version = 0;
  if (get_version != nullptr && get_version(&version) == 0) status.driver_version = version;
  status.reason = "this program was built without CUDA";
  status.reason += status.driver_version > 0
                       ? "; the driver supports CUDA " + CudaVersionText(status.driver_version)
                       : "; no CUDA driver is installed";
  return status;
}

}  // namespace twin::exec
