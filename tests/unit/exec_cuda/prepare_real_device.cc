#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::testing {

void PrepareDevice() {}

bool DeviceIsExact() { return false; }

}  // namespace twin::exec::testing
