// Detects the CPU's instruction sets and usable cores.
#pragma once

#include <cstdint>
#include <string>

namespace twin::kernels {

// The CPU model, and the instruction sets that both the CPU and the operating system support.
struct CpuFeatures {
  std::string model;              // brand string; empty if unknown
  bool amd = false;               // made by AMD
  std::int32_t usable_cores = 1;  // logical cores that this process may run on
  bool avx2_fma = false;          // AVX2 and FMA
  bool avx512f = false;
  bool avx512_bf16 = false;  // bf16 dot products, together with AVX-512BW
  bool avx512_vnni = false;  // int8 dot products

  bool operator==(const CpuFeatures&) const = default;
};

// Queries the processor and the operating system on every call; nothing is cached.
CpuFeatures DetectCpu();

// One line: "AMD EPYC, 2 cores: AVX2+FMA, AVX-512F, AVX-512 BF16, AVX-512 VNNI".
std::string Describe(const CpuFeatures& cpu);

}  // namespace twin::kernels
