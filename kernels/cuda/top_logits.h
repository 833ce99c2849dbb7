// Finds the likeliest tokens of rows on a device, so that not all logits travel to the host.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/sampling.h"
#include "kernels/top_logits.h"

namespace twin::kernels::cuda {

// For each row i with parameters[i].logprobs >= 0, to[i] describes the row, its chosen token
// tokens[*first + i] and its parameters[i].logprobs likeliest tokens. kernels::AppendLogprobs makes
// the CPU's log-probabilities of it, bit for bit. Other elements of `to` do not change.
//
// Shapes    logits: [rows, vocab] fp32; parameters, to: [rows]; first: one number; tokens: as
//           SampleTokens() writes them. All are in device memory.
// REQUIRES  parameters[i].logprobs <= kTopLogitsMax.
// Cost      Two passes over the logits of a row, and for each alternative a pass of one thread over
//           its own share of them. One block per row.
void FindTopLogits(StreamView stream, DeviceMatrix logits, const SamplingParameters* parameters,
                   const std::int32_t* first, const std::int32_t* tokens, TopLogits* to);

}  // namespace twin::kernels::cuda
