// Predicts how long the operations of a table take on a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/device_profile.h"

namespace twin::run {

enum class OperationKind : std::uint8_t { kGemm, kContextAttention, kGenerationAttention };

struct OperationTableFiles {
  std::string in;             // CSV, plain or gzip
  std::filesystem::path out;  // compressed if it ends in .gz
};

// Writes the table `files.in` with three more columns: predicted_us, predicted_low_us and
// predicted_high_us (a 90 % interval). Returns the number of rows.
//
// Columns: m, n, k (GEMM); num_heads, num_kv_heads, head_dim, batch, seq_len (context attention:
// prompts without past context) or kv_len (generation attention: tokens attended to, the new one
// included). Optional: backend, dtype (GEMM), attn_dtype, kv_dtype and window (attention). Columns
// may have aiconfigurator's own names: framework, gemm_dtype, num_key_value_heads, batch_size, isl,
// kv_cache_dtype, window_size. Others are copied, earlier predictions are replaced. Throws
// InputError with file, line and field, and ends early as EndIfStopped() does.
std::uint64_t PredictOperations(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                                OperationKind kind, const OperationTableFiles& files,
                                RunControl& control);

}  // namespace twin::run
