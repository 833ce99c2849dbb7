// Samples the next tokens from logits on a device. CPU twin: kernels/sampling.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/sampling.h"

namespace twin::kernels::cuda {

// Sets tokens[*first + i] to SampleToken(logits[i], parameters[i]). For bit-identical logits, the
// tokens are the same as on the CPU. While the kernel runs, masked logits are NaN; afterwards they
// have their old values.
//
// Shapes    logits: [rows, vocab] fp32; parameters: [rows]; first: one number. All are in device
//           memory.
// Cost      One pass over the logits for greedy and temperature sampling. One more for top_k, top_p
//           or min_p, two or three more for top_k, three or four for top_p, one for min_p, mostly
//           from cache; more if more than 1,024 candidates are equal in their first digits. One
//           block per row.
void SampleTokens(StreamView stream, DeviceMatrix logits, const SamplingParameters* parameters,
                  const std::int32_t* first, std::int32_t* tokens);

}  // namespace twin::kernels::cuda
