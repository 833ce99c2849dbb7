// Splits a step between the attention kernels. Internal to PagedAttention.
#pragma once

#include <optional>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {

// A step divided into decodes and prefills, with the kernel of each. A part without sequences is
// not launched.
struct AttentionSplit {
  AttentionPart decodes;
  AttentionPart prefills;
  AttentionKernel decode_kernel = AttentionKernel::kGeneric;
  AttentionKernel prefill_kernel = AttentionKernel::kGeneric;
};

struct AttentionKernels {
  AttentionKernel decode = AttentionKernel::kGeneric;
  AttentionKernel prefill = AttentionKernel::kGeneric;
  std::optional<std::int32_t> waves = {};  // of decodes, as measured (DecodeWay)
};

// The kernels of `choice` that a step with these numbers of sequences and rows uses. Prefills use
// kFa2 instead of kFa3 if their mean number of queries is below the minimum of `choice`; decodes
// beside prefills that use the generic kernel use it too.
AttentionKernels KernelsFor(const AttentionWork& work, const AttentionChoice& choice);

// Assigns the decodes and the prefills to these kernels. If the prefills use the generic kernel,
// `prefills` covers the whole step, decodes included, because that kernel looks up a row's sequence
// starting from the first row of the step. Prefills by kFa3 are `fresh` if they all begin at
// position 0 and `choice` allows it.
AttentionSplit SplitAttention(const AttentionWork& work, const AttentionChoice& choice);

}  // namespace twin::kernels::cuda
