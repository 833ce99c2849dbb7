// Rows of attention: batches of sequences of equal length.
#pragma once

#include <memory>

#include "apps/predict/operation_predictor.h"

namespace twin::run {

// Prompts without past context: num_heads, num_kv_heads, head_dim, batch, seq_len.
std::unique_ptr<OperationPredictor> MakeContextAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile);

// One new token per sequence: num_heads, num_kv_heads, head_dim, batch, kv_len.
std::unique_ptr<OperationPredictor> MakeGenerationAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile);

}  // namespace twin::run
