// Makes profiles of devices from the tables of NVIDIA's aiconfigurator.
#pragma once

#include <filesystem>

#include "lab/run_control.h"

namespace twin::lab {

// `folder` holds the tables as CSV, plain or gzip: gemm_SYSTEM.csv[.gz] with the columns backend,
// version, dtype, m, n, k, latency_us. For each SYSTEM that has a data sheet
// (PresetOfAiconfigurator in proto/hardware_file.h) writes `out`/PRESET/gemm.textproto, which
// sim/profiles/ ships. Other files are skipped with a warning. Minutes of CPU time for a large
// database. Throws InputError with file, line and field, or if `folder` holds no such table.
void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control);

}  // namespace twin::lab
