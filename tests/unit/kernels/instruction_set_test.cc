#include "kernels/instruction_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace twin::kernels {
namespace {

using Sets = std::vector<InstructionSet>;

constexpr InstructionSet kPortable = InstructionSet::kPortable;
constexpr InstructionSet kAvx2 = InstructionSet::kAvx2;
constexpr InstructionSet kAvx512 = InstructionSet::kAvx512;
constexpr InstructionSet kAvx512Bf16 = InstructionSet::kAvx512Bf16;

TEST(InstructionSetTest, ACpuWithoutExtensionsRunsPortableCode) {
  EXPECT_EQ(UsableInstructionSets({.model = "", .amd = true}), Sets{kPortable});
}

#ifdef __x86_64__
TEST(InstructionSetTest, NoExtensionIsUsedThatTheCpuLacks) {
  EXPECT_EQ(UsableInstructionSets({.model = "", .avx2_fma = true}), (Sets{kPortable, kAvx2}));
  EXPECT_EQ(UsableInstructionSets({.model = "", .amd = true, .avx2_fma = true, .avx512f = true}),
            (Sets{kPortable, kAvx2, kAvx512}));
  EXPECT_EQ(
      UsableInstructionSets({.model = "", .amd = true, .avx2_fma = true, .avx512_bf16 = true}),
      (Sets{kPortable, kAvx2}));
}

TEST(InstructionSetTest, ProductsOfBf16PairsAreTheFastestOfAnAmdCpuOnly) {
  CpuFeatures cpu = {.model = "", .avx2_fma = true, .avx512f = true, .avx512_bf16 = true};
  EXPECT_EQ(UsableInstructionSets(cpu), (Sets{kPortable, kAvx2, kAvx512Bf16, kAvx512}));
  cpu.amd = true;
  EXPECT_EQ(UsableInstructionSets(cpu), (Sets{kPortable, kAvx2, kAvx512, kAvx512Bf16}));
}
#endif

TEST(InstructionSetTest, TheBestIsTheLastUsableOne) {
  EXPECT_EQ(BestInstructionSet(), UsableInstructionSets(DetectCpu()).back());
}

TEST(InstructionSetTest, HasAName) {
  EXPECT_EQ(Name(kPortable), "portable");
  EXPECT_EQ(Name(kAvx2), "avx2");
  EXPECT_EQ(Name(kAvx512), "avx512");
  EXPECT_EQ(Name(kAvx512Bf16), "avx512_bf16");
}

}  // namespace
}  // namespace twin::kernels
