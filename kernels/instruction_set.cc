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
  }
  return "";
}

std::vector<InstructionSet> UsableInstructionSets(const CpuFeatures& cpu) {
  std::vector<InstructionSet> sets = {InstructionSet::kPortable};
#ifdef __x86_64__
  if (cpu.avx2_fma) sets.push_back(InstructionSet::kAvx2);
  if (cpu.avx2_fma && cpu.avx512f) sets.push_back(InstructionSet::kAvx512);
#endif
  return sets;
}

InstructionSet BestInstructionSet() { return UsableInstructionSets(DetectCpu()).back(); }

}  // namespace twin::kernels
