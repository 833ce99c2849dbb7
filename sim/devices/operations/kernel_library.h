// The kernels that a serving engine calls. Measured times of one shape differ between libraries by
// 2-5 % (bf16 GEMM) and more, so profiles keep them apart.
#pragma once

#include <cstdint>

namespace twin::sim {

enum class KernelLibrary : std::uint8_t { kVllm, kSglang, kTrtllm };

// Kernels of a mixture's experts that servers may be told to run. kAny: the fastest of the library.
enum class ExpertsKernel : std::uint8_t { kAny, kCutlass, kDeepGemm, kTriton, kTrtllmGen };

}  // namespace twin::sim
