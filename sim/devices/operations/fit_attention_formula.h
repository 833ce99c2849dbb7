// Fits the closed form of an attention kernel (attention_kernel.h) to measurements.
#pragma once

#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_profile.h"
#include "sim/devices/operations/fit_attention.h"

namespace twin::sim {

// Prediction of the table's closed form for the sample's prompts or decodes; for the prompts alone
// if the call is mixed.
[[nodiscard]] double FormulaMicroseconds(const AttentionTable& table,
                                         const AttentionMeasurement& sample);

// `key` with the closed form of its kind: every combination of the discrete choices (heads packed
// and rows of a tile; splits, slots and packed groups) is fitted by least absolute logarithms, from
// the data sheet's numbers on, and the best one is kept. `packs_heads` fixes that choice for
// prompts; `poll` is called for each combination. REQUIRES: samples.
[[nodiscard]] AttentionTable FitAttentionFormula(const HardwareSpec& hardware,
                                                 const AttentionTable& key,
                                                 const std::vector<AttentionMeasurement>& samples,
                                                 const AttentionFitOptions& options);

}  // namespace twin::sim
