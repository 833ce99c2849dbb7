// Makes profiles of devices from the layer profiles of LLMServingSim.
#pragma once

#include <filesystem>

#include "run/run_control.h"

namespace twin::run {

// `folder` holds profile_DEVICE_MODEL_dense.csv[.gz] (tp, layer, tokens, time_us) and, beside it,
// profile_DEVICE_MODEL_per_sequence.csv[.gz] (tp, layer, sequences, time_us), MODEL being the name
// of a model preset. The projections of a layer and the head become `out`/PRESET/gemm.textproto,
// for the devices rtx4090 and rtxpro6000. profile_DEVICE_MODEL_attention.csv[.gz]
// (layer_attention_import.h), if it is there, becomes `out`/PRESET/attention.textproto, with norms,
// rotary positions, activation, embedding and sampling from the first two. Other files are skipped,
// other devices and models with a warning. All files appear at the end, or none.
// Throws InputError with file, line and field, or if `folder` holds no such table, and ends early
// as EndIfStopped() does.
void ImportLlmServingSim(const std::filesystem::path& folder, const std::filesystem::path& out,
                         RunControl& control);

}  // namespace twin::run
