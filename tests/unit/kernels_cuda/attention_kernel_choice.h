// A choice of kernels that uses a given one.
#pragma once

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// The kernel for the part that it serves, with a companion for the other part.
inline AttentionChoice ChoiceWith(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kGeneric:
    case AttentionKernel::kFa2:
      return {.decode = kernel, .prefill = kernel};
    case AttentionKernel::kFa3:
      return {.decode = AttentionKernel::kFa2, .prefill = kernel, .fa3_queries_min = 1};
    case AttentionKernel::kCudaCore:
      return {.decode = kernel, .prefill = AttentionKernel::kFa2};
  }
  return {};
}

}  // namespace twin::kernels::cuda
