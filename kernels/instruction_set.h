// Which vector instructions the CPU kernels run with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// kPortable is what the compiler's target offers on its own. kAvx512Bf16 is kAvx512 with products
// of bf16 pairs for bf16 weights.
enum class InstructionSet : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16 };

// "portable", "avx2", "avx512", "avx512_bf16".
std::string_view Name(InstructionSet set);

// Those that this build has code for and `cpu` can execute, in ascending order of speed there;
// never empty.
std::vector<InstructionSet> UsableInstructionSets(const CpuFeatures& cpu);

// The last of the usable ones on this machine.
InstructionSet BestInstructionSet();

}  // namespace twin::kernels
