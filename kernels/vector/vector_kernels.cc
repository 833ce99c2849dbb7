#include "kernels/vector/vector_kernels.h"

#include "core/check.h"

namespace twin::kernels {

const VectorKernels& KernelsFor(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512Bf16) return kAvx512Bf16Kernels;
  if (set == InstructionSet::kAvx512) return kAvx512Kernels;
  if (set == InstructionSet::kAvx2) return kAvx2Kernels;
#endif
  CHECK(set == InstructionSet::kPortable);
  return kPortableKernels;
}

}  // namespace twin::kernels
