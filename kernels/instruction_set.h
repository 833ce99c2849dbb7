// The vector instruction sets for which CPU kernels exist, and the choice among them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// kPortable uses the compiler's default target. kAvx512Bf16 is kAvx512 with dot products of bf16
// pairs for bf16 weights.
enum class InstructionSet : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16 };

// "portable", "avx2", "avx512", "avx512_bf16".
std::string_view Name(InstructionSet set);

// The sets for which this build has code and which `cpu` can execute, in ascending order of speed
// on `cpu`. Never empty.
std::vector<InstructionSet> UsableInstructionSets(const CpuFeatures& cpu);

// The fastest usable set on this machine: the last of UsableInstructionSets.
InstructionSet BestInstructionSet();

}  // namespace twin::kernels
