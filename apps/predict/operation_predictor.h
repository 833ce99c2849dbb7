// Turns rows of an operation table into questions to the operation models.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/files/csv.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/kernel_library.h"

namespace twin::run {

// One kind of operation. Implementations keep the models of the formats and libraries that occurred
// before, so that a row costs a few lookups.
class OperationPredictor {
 public:
  virtual ~OperationPredictor() = default;
  // Throws InputError with file, line and field.
  virtual sim::TimeEstimate Predict(const CsvTable& row) = 0;
};

// The library that the column `backend` names; vLLM without it.
sim::KernelLibrary LibraryOf(const CsvTable& row);

// The names that tables of profiles have.
std::string_view NameOf(sim::KernelLibrary library);
std::string_view NameOf(sim::GemmFormat format);

// Upper limit of m, n and k.
inline constexpr std::int64_t kGemmSizeMax = std::int64_t{1} << 24;

// The format that the column names; bf16 without it.
sim::GemmFormat GemmFormatOf(const CsvTable& row, std::string_view column = "dtype");

std::unique_ptr<OperationPredictor> MakeGemmPredictor(const HardwareSpec& hardware,
                                                      const sim::DeviceProfile& profile);

// Prompts without past context: num_heads, num_kv_heads, head_dim, batch, seq_len.
std::unique_ptr<OperationPredictor> MakeContextAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile);

// One new token per sequence: num_heads, num_kv_heads, head_dim, batch, kv_len.
std::unique_ptr<OperationPredictor> MakeGenerationAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile);

// The columns of a kind of operation_kinds.h.
std::unique_ptr<OperationPredictor> MakeMeasuredPredictor(const HardwareSpec& hardware,
                                                          const sim::DeviceProfile& profile,
                                                          std::string_view kind);

}  // namespace twin::run
