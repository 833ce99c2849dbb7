#include "apps/serve/real_time_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "core/input_error.h"

namespace twin::apps {
namespace {

constexpr uid_t kNobody = 65534;

bool MayTakeRealTimePriority() {
  const sched_param priority{.sched_priority = 1};
  const sched_param ordinary{.sched_priority = 0};
  if (sched_setscheduler(0, SCHED_RR, &priority) != 0) return false;
  return sched_setscheduler(0, SCHED_OTHER, &ordinary) == 0;
}

const WorldConfig kEmulated = EmulatedWorldConfig{};
const WorldConfig kTenTimesAsFast = EmulatedWorldConfig{.speed = 10};

// Each test runs in a process of its own, because the priority stays.
[[noreturn]] void SayPolicyOfAThreadAfter(RealTime asked, const WorldConfig& world) {
  std::cerr << SetPriority(asked, world) << " | ";
  std::thread([] {
    std::cerr << (sched_getscheduler(0) == SCHED_RR ? "SCHED_RR" : "ordinary");
  }).join();
  std::exit(0);
}

[[noreturn]] void AskWithoutThePermission(RealTime asked) {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_RTPRIO, &none) != 0) std::exit(3);
  if (geteuid() == 0 && setuid(kNobody) != 0) std::exit(4);
  try {
    SayPolicyOfAThreadAfter(asked, kEmulated);
  } catch (const InputError& error) {
    std::cerr << error.what();
    std::exit(2);
  }
}

TEST(RealTimePriorityTest, HoldsForThreadsStartedAfterwards) {
  if (!MayTakeRealTimePriority()) GTEST_SKIP() << "this process may not have real-time priority";
  EXPECT_EXIT(SayPolicyOfAThreadAfter(RealTime::kOn, kEmulated), testing::ExitedWithCode(0),
              "^ \\| SCHED_RR");
  EXPECT_EXIT(SayPolicyOfAThreadAfter(RealTime::kOn, kTenTimesAsFast), testing::ExitedWithCode(0),
              "^ \\| SCHED_RR");
}

TEST(RealTimePriorityTest, IsTakenUnaskedAndSaidByAnEmulatedWorldThatRunsAsFastAsTime) {
  if (!MayTakeRealTimePriority()) GTEST_SKIP() << "this process may not have real-time priority";
  EXPECT_EXIT(SayPolicyOfAThreadAfter(RealTime::kAuto, kEmulated), testing::ExitedWithCode(0),
              "note: real-time priority.* \\| SCHED_RR");
}

TEST(RealTimePriorityTest, IsNotTakenUnaskedByFasterClocksAndRealModels) {
  for (const WorldConfig& world : {kTenTimesAsFast, WorldConfig{RealWorldConfig{}}}) {
    EXPECT_EXIT(SayPolicyOfAThreadAfter(RealTime::kAuto, world), testing::ExitedWithCode(0),
                "^ \\| ordinary");
  }
}

TEST(RealTimePriorityTest, IsNotTakenIfOff) {
  EXPECT_EXIT(SayPolicyOfAThreadAfter(RealTime::kOff, kEmulated), testing::ExitedWithCode(0),
              "^ \\| ordinary");
}

TEST(RealTimePriorityTest, IsRefusedToRealModels) {
  EXPECT_THROW((void)SetPriority(RealTime::kOn, RealWorldConfig{}), InputError);
}

TEST(RealTimePriorityTest, IsRefusedWithTheReasonToProcessesWithoutThePermission) {
  EXPECT_EXIT(AskWithoutThePermission(RealTime::kOn), testing::ExitedWithCode(2),
              "^--real-time: this process may not have real-time priority .*CAP_SYS_NICE");
}

TEST(RealTimePriorityTest, ANoteSaysWhyTokensMayBeLateWithoutThePermission) {
  EXPECT_EXIT(AskWithoutThePermission(RealTime::kAuto), testing::ExitedWithCode(0),
              "^note: tokens may leave late .*CAP_SYS_NICE.* \\| ordinary");
}

}  // namespace
}  // namespace twin::apps
