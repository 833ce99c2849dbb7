// Makes profiles of devices from the tables of NVIDIA's aiconfigurator.
#pragma once

#include <filesystem>

#include "run/run_control.h"

namespace twin::run {

// `folder` holds tables as CSV, plain or gzip:
//   gemm_SYSTEM                                  becomes `out`/PRESET/gemm.textproto
//   moe_vllm_SYSTEM                              becomes `out`/PRESET/moe.textproto
//   context_ and generation_attention_SYSTEM     become  `out`/PRESET/attention.textproto
//   comm_SYSTEM                                  becomes `out`/PRESET/collectives.textproto
// for each SYSTEM that has a data sheet (PresetOfAiconfigurator in config/hardware_file.h); others
// are skipped with a warning. sim/devices/profiles/ ships the results. All files appear at the end,
// or none. Minutes of CPU time for a large database. Throws InputError with file, line and field,
// or if `folder` holds no such table, or two of a kind and device, and ends early as EndIfStopped()
// does.
void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control);

}  // namespace twin::run
