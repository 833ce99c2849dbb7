// Makes profiles of devices from the tables of NVIDIA's aiconfigurator.
#pragma once

#include <filesystem>

#include "lab/run_control.h"

namespace twin::lab {

// `folder` holds the tables as CSV, plain or gzip: gemm_SYSTEM.csv[.gz] with the columns backend,
// version, dtype, m, n, k, latency_us, and moe_vllm_SYSTEM.csv[.gz] (moe_import.h). For each SYSTEM
// that has a data sheet (PresetOfAiconfigurator in proto/hardware_file.h) writes gemm.textproto and
// moe.textproto to `out`/PRESET/, as sim/profiles/ ships them. Other files are skipped, other
// systems with a warning. Minutes of CPU time for a large database.
// Throws InputError with file, line and field, or if `folder` holds no such table.
void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control);

}  // namespace twin::lab
