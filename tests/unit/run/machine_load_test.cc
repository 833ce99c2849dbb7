#include "run/machine_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twin::run {
namespace {

using ::testing::HasSubstr;

MachineSample Sample(std::int64_t total, std::int64_t busy, std::int64_t steal, double own) {
  return {.total = total, .busy = busy, .steal = steal, .own = own, .cpus = 2, .load_average = 1};
}

// user 10, nice 20, system 30, idle 40, iowait 50, irq 1, softirq 2, steal 7; guests are in user.
TEST(MachineLoadTest, ReadsTheTicksOfAllCpus) {
  const auto sample = ParseProcStat(
      "cpu  10 20 30 40 50 1 2 7 5 0\ncpu0 5 10 15 20 25 1 1 4 0 0\n"
      "cpu1 5 10 15 20 25 0 1 3 0 0\nintr 1234\n");
  ASSERT_TRUE(sample.has_value());
  EXPECT_EQ(sample->busy, 63);
  EXPECT_EQ(sample->steal, 7);
  EXPECT_EQ(sample->total, 160);
  EXPECT_EQ(sample->cpus, 2);
}

TEST(MachineLoadTest, IsUnknownWhereNoTimeIsCounted) {
  EXPECT_FALSE(ParseProcStat("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(ParseProcStat(""));
  MachineLoadMeter meter;
  EXPECT_FALSE(meter.Result());
  meter.Add(Sample(1000, 0, 0, 0));
  meter.Add(std::nullopt);
  meter.Add(Sample(1099, 0, 0, 0));  // 99 ticks: less than a second
  EXPECT_FALSE(meter.Result());
}

// 2 CPUs, 400 ticks: 300 busy, 200 of them the run's own, so others kept half a CPU busy; in the
// second half 80 of 200 ticks, 0.8 CPUs.
TEST(MachineLoadTest, OtherLoadIsWhatIsBusyWithoutTheRun) {
  MachineLoadMeter meter;
  meter.Add(Sample(1000, 500, 10, 5));
  meter.Add(Sample(1200, 620, 11, 105));
  meter.Add(Sample(1400, 800, 12, 205));
  const auto load = meter.Result();
  ASSERT_TRUE(load.has_value());
  EXPECT_DOUBLE_EQ(load->other_cpus, 0.5);
  EXPECT_DOUBLE_EQ(load->other_cpus_max, 0.8);
  EXPECT_DOUBLE_EQ(load->steal_share, 0.005);
  EXPECT_TRUE(load->disturbed());
  EXPECT_THAT(load->text(), HasSubstr("0.5 % of the CPU time stolen"));
}

TEST(MachineLoadTest, AnIdleMachineAndAFewTicksOfOthersAreNoDisturbance) {
  MachineLoadMeter meter;
  meter.Add(Sample(1000, 500, 10, 0));
  meter.Add(Sample(2000, 1000, 20, 460));  // 40 of 1000 ticks are others', 1 % is stolen
  EXPECT_FALSE(meter.Result()->disturbed());
  meter.Add(Sample(3000, 1000, 60, 460));
  EXPECT_TRUE(meter.Result()->disturbed());
}

}  // namespace
}  // namespace twin::run
