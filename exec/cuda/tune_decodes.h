// Chooses by measurement how the attention of decodes is computed.
#pragma once

#include "exec/cuda/cuda_model.h"
#include "kernels/kv_cache.h"

namespace twin::exec::cuda {

// Measures the ways that serve the model at numbers of decodes up to its largest graph and at a few
// lengths, as far as the cache holds them, and gives the model the fastest. What the algorithm
// cache holds is not measured again; what is measured is saved in it. Does nothing where only one
// way serves or the model's options name the kernels. Overwrites the model's activations.
void TuneDecodes(CudaModel& model, const kernels::KvCacheView& cache);

}  // namespace twin::exec::cuda
