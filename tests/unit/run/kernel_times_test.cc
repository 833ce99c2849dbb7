// Times of kernels: medians of repeats that a test writes down.
#include "run/real/kernel_times.h"

#include <gtest/gtest.h>

namespace twin::run {
namespace {

using Repeat = std::vector<exec::KernelRun>;

exec::KernelRun Kernel(const char* name, std::int64_t begin_ns, std::int64_t end_ns) {
  return {.name = name, .begin_ns = begin_ns, .end_ns = end_ns};
}

TEST(KernelTimesTest, AreMediansKernelByKernel) {
  const std::vector<Repeat> repeats = {{Kernel("a", 1000, 3000), Kernel("b", 3500, 4500)},
                                       {Kernel("a", 0, 1000), Kernel("b", 3000, 9000)},
                                       {Kernel("a", 10'000, 15'000), Kernel("b", 14'000, 18'000)}};
  const std::vector<KernelTime> times = MedianKernelTimes(repeats);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].name, "a");
  EXPECT_DOUBLE_EQ(times[0].us, 2);  // of 2, 1 and 5
  EXPECT_DOUBLE_EQ(times[0].gap_us, 0);
  EXPECT_EQ(times[1].name, "b");
  EXPECT_DOUBLE_EQ(times[1].us, 4);        // of 1, 6 and 4
  EXPECT_DOUBLE_EQ(times[1].gap_us, 0.5);  // of 0.5, 2 and -1: the last began early
}

// A trace that lost a kernel says nothing of the others' places.
TEST(KernelTimesTest, LeaveOutRepeatsWithAnotherNumberOfKernels) {
  const std::vector<Repeat> repeats = {{Kernel("a", 0, 1000)},
                                       {Kernel("a", 0, 3000), Kernel("b", 3000, 4000)},
                                       {Kernel("a", 0, 3000), Kernel("b", 3000, 4000)}};
  const std::vector<KernelTime> times = MedianKernelTimes(repeats);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_DOUBLE_EQ(times[0].us, 3);
  EXPECT_TRUE(MedianKernelTimes({}).empty());
}

}  // namespace
}  // namespace twin::run
