// Which vector instructions the CPU kernels run with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// In ascending order of speed; kPortable is what the compiler's target offers on its own.
enum class InstructionSet : std::uint8_t { kPortable, kAvx2, kAvx512 };

// "portable", "avx2", "avx512".
std::string_view Name(InstructionSet set);

// Those that this build has code for and `cpu` can execute, ascending; never empty.
std::vector<InstructionSet> UsableInstructionSets(const CpuFeatures& cpu);

// The last of the usable ones on this machine.
InstructionSet BestInstructionSet();

}  // namespace twin::kernels
