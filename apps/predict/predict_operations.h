// Predicts how long the operations of a table take on a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/profile_folder.h"
#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/device_profile.h"

namespace twin::run {

// The kinds of operations that tables may have: gemm, context_attention, generation_attention, and
// those of sim/devices/operations/operation_kinds.h. Pairs of a word and its value, which is equal.
std::vector<std::pair<std::string, std::string>> OperationKindWords();

// The part of a profile that predictions of the kind need.
ProfilePart PartOfOperation(std::string_view kind);

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
// kv_cache_dtype, window_size. Other kinds have the columns that operation_kinds.h names: those of
// formats and kernels are optional. Others are copied, earlier predictions are replaced. Throws
// InputError with file, line and field, and ends early as EndIfStopped() does.
// REQUIRES: `kind` is one of OperationKindWords().
std::uint64_t PredictOperations(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                                std::string_view kind, const OperationTableFiles& files,
                                RunControl& control);

}  // namespace twin::run
