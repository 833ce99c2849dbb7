// Rows of matrix products: m, n, k, and backend and dtype if they are there.
#pragma once

#include <memory>

#include "lab/predict/operation_predictor.h"

namespace twin::lab {

std::unique_ptr<OperationPredictor> MakeGemmPredictor(const HardwareSpec& hardware,
                                                      const sim::DeviceProfile& profile);

}  // namespace twin::lab
