// Which sequences of a step go to which attention kernel. Internal to PagedAttention.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {

// A step cut in two. A part whose kernel is kGeneric covers what its rows say; one without
// sequences is not launched.
struct AttentionSplit {
  AttentionPart decodes;
  AttentionPart prefills;
  AttentionKernel decode_kernel = AttentionKernel::kGeneric;
  AttentionKernel prefill_kernel = AttentionKernel::kGeneric;
};

// Decodes first, then the others, each as the choice says; kFa3 falls back to kFa2 where the
// prefills have fewer queries than it pays for, on average. The generic kernel finds sequences by
// rows from the step's first on: where it has the prefills, it takes the decodes as well.
AttentionSplit SplitAttention(const AttentionWork& work, const AttentionChoice& choice);

}  // namespace twin::kernels::cuda
