#include <cpuid.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <string>

#include "kernels/cpu_features.h"

namespace twin::kernels {
namespace {

std::string BrandString() {
  constexpr unsigned kFirstLeaf = 0x80000002;
  constexpr unsigned kLeaves = 3;
  std::array<unsigned, 4 * kLeaves> words{};
  for (unsigned i = 0; i < kLeaves; ++i) {
    unsigned* w = words.data() + std::size_t{4} * i;
    if (__get_cpuid(kFirstLeaf + i, &w[0], &w[1], &w[2], &w[3]) == 0) return "";
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  std::string brand(text.data());
  const auto first = brand.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

// Counts the cores in the affinity mask, which containers and taskset restrict.
std::int32_t UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

CpuFeatures DetectCpu() {
  __builtin_cpu_init();
  CpuFeatures cpu;
  cpu.model = BrandString();
  cpu.amd = __builtin_cpu_is("amd") != 0;
  cpu.usable_cores = UsableCores();
  // The built-in also checks that the operating system saves the wider registers.
  cpu.avx2_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  cpu.avx512f = __builtin_cpu_supports("avx512f") != 0;
  cpu.avx512_bf16 =
      __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  cpu.avx512_vnni = __builtin_cpu_supports("avx512vnni") != 0;
  return cpu;
}

}  // namespace twin::kernels
