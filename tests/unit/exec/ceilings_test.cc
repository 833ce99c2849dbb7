#include "exec/cpu/ceilings.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/ceilings.h"

namespace twin::exec {
namespace {

TEST(CeilingsTest, CoversEveryUsableInstructionSet) {
  const CpuCeilings ceilings = MeasureCeilings(2, 1 << 22);
  std::vector<kernels::InstructionSet> sets;
  for (const ComputeCeiling& compute : ceilings.compute) {
    sets.push_back(compute.set);
    // No machine does less than 0.1 or more than 10^5 GFLOP/s on two threads.
    EXPECT_GT(compute.flops_per_s, 1e8);
    EXPECT_LT(compute.flops_per_s_best, 1e14);
    EXPECT_GE(compute.flops_per_s_best, compute.flops_per_s);
    EXPECT_LE(compute.flops_per_s_best, ceilings.flops_per_s_best());
  }
  EXPECT_EQ(sets, kernels::UsableInstructionSets(kernels::DetectCpu()));
  EXPECT_GT(ceilings.read_bytes_per_s, 1e7);
  EXPECT_GE(ceilings.read_bytes_per_s_best, ceilings.read_bytes_per_s);
  EXPECT_EQ(ceilings.read_bytes, 1 << 22);
}

TEST(CeilingsTest, TheArrayIsLargerThanCaches) {
  EXPECT_GE(ReadArrayBytes(), 1 << 20);
  EXPECT_LE(ReadArrayBytes(), std::int64_t{1} << 36);
}

TEST(CeilingsTest, OperationsFollowFromRoundsThreadsAndLanes) {
  // Portable code has 4 lanes and 12 chains: 96 operations a round, and each of two threads runs
  // 16 ranges of 1600 / 16 rounds.
  kernels::ThreadPool pool(2, kernels::InstructionSet::kPortable);
  EXPECT_EQ(kernels::RunMultiplyAdds(pool, 1600), 2 * 1600 * 96);
}

}  // namespace
}  // namespace twin::exec
