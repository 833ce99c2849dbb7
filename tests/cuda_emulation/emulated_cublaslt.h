// cuBLASLt on the emulated device: products in stream order, refused where the library refuses.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/cublaslt_library.h"

namespace twin::cuda_emulation {

// The table of a library of version 13.1.0. It knows products of bf16 matrices, with fp32 sums,
// into bf16 or fp32, column-major, transposed or not; and it demands what cuBLASLt
// demands: that sizes and formats fit, that leading dimensions cover the rows, that pointers,
// leading dimensions and workspace are aligned as the algorithm needs them.
//
// On devices of compute capability 9.0 it knows products of e4m3 matrices too: a transposed, b not,
// m and k multiples of 16, into bf16 or fp32, a scale for each row of a and column of b. Both
// scale pointers must be there when an algorithm is asked for, and be the device's when it runs.
// With fast accumulation, which these products alone have, a sum keeps 13 bits behind its point. An
// algorithm that was suggested for one accumulation is refused for the other.
//
// It suggests two algorithms: one sums in ascending order of k and needs no workspace, the other
// sums two halves apart and needs 16 MiB.
kernels::cuda::CublasLtFunctions EmulatedCublasLt();

// How often products were started, and algorithms asked for, in this process.
struct CublasLtCalls {
  int products = 0;
  int fast_products = 0;  // of these, with fast accumulation
  int heuristics = 0;
  unsigned reduction_mask = 0;  // of the last preference that an algorithm was asked for with
};
CublasLtCalls EmulatedCublasLtCalls();

// Products by these of the suggested algorithms (0: the first one) fail from now on, as those that
// a library suggests but cannot run.
void FailCublasLtAlgorithms(std::vector<std::uint64_t> algorithms);

}  // namespace twin::cuda_emulation
