// The choice of the next tokens from logits on a device. CPU twin: kernels/sampling.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/sampling.h"

namespace twin::kernels::cuda {

// tokens[*first + i] = SampleToken(logits[i], parameters[i]): the CPU's token of equal logits, bit
// for bit.
//
// Shapes    logits: [rows, vocab] fp32; parameters: [rows] and `first`: one number, in device
//           memory.
// Cost      greedy and temperature alone: one pass over the logits; top_k and top_p: some more,
//           mostly in cache. One block of threads for each row.
void SampleTokens(StreamView stream, DeviceMatrix logits, const SamplingParameters* parameters,
                  const std::int32_t* first, std::int32_t* tokens);

}  // namespace twin::kernels::cuda
