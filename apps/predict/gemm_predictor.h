// Rows of matrix products: m, n, k, and backend and dtype if they are there.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "apps/predict/operation_predictor.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::run {

// Upper limit of m, n and k.
inline constexpr std::int64_t kGemmSizeMax = std::int64_t{1} << 24;

// The format that the column names; bf16 without it.
sim::GemmFormat GemmFormatOf(const CsvTable& row, std::string_view column = "dtype");

std::unique_ptr<OperationPredictor> MakeGemmPredictor(const HardwareSpec& hardware,
                                                      const sim::DeviceProfile& profile);

}  // namespace twin::run
