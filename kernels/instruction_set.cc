#include "kernels/instruction_set.h"

namespace twin::kernels {

std::string_view Name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "";
}

std::vector<InstructionSet> UsableInstructionSets(const CpuFeatures& cpu) {
  std::vector<InstructionSet> sets = {InstructionSet::kPortable};
#ifdef __x86_64__
  if (cpu.avx2_fma) sets.push_back(InstructionSet::kAvx2);
  if (cpu.avx2_fma && cpu.avx512f) sets.push_back(InstructionSet::kAvx512);
  if (cpu.avx2_fma && cpu.avx512f && cpu.avx512_bf16) {
    // AMD's cores issue dot products of bf16 pairs at the rate of fp32 multiply-adds, and each does
    // twice the work. Intel's Sapphire and Emerald Rapids issue them at a quarter of that rate, so
    // fp32 is faster there.
    sets.insert(cpu.amd ? sets.end() : sets.end() - 1, InstructionSet::kAvx512Bf16);
  }
#endif
  return sets;
}

InstructionSet BestInstructionSet() { return UsableInstructionSets(DetectCpu()).back(); }

}  // namespace twin::kernels
