// Pieces of work on several threads: what they report, and how many run at a time.
#include "run/many/parallel_runs.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "run/many/distinct_reports.h"
#include "tests/unit/run/reports.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Threads that the system grants yet.
std::atomic<int> threads_left = std::numeric_limits<int>::max();

// While it lives, all threads but the first ones are refused.
class RefusedThreads {
 public:
  explicit RefusedThreads(int granted) { threads_left = granted; }
  ~RefusedThreads() { threads_left = std::numeric_limits<int>::max(); }
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;
};

TEST(ParallelRunsTest, WarningsAndNotesOfRunsReachTheCallersThread) {
  Reports reports;
  const std::thread::id caller = std::this_thread::get_id();
  RunInParallel(
      6, 3, reports,
      [&](std::size_t i, RunControl& inner) {
        EXPECT_NE(std::this_thread::get_id(), caller);
        inner.OnWarning("steps are extrapolated");
        if (i == 0) inner.OnNote("a note");
      },
      [](std::size_t) {});
  EXPECT_EQ(reports.warnings.size(), 6u);
  EXPECT_THAT(reports.notes, ElementsAre("a note"));
}

TEST(ParallelRunsTest, EqualReportsAreShownOnceAndManyAreCounted) {
  Reports reports;
  DistinctReports distinct(reports);
  for (int i = 0; i < 3; ++i) distinct.OnWarning("the same");
  EXPECT_THAT(reports.warnings, ElementsAre("the same"));
  for (int i = 0; i < 30; ++i) distinct.OnWarning(std::to_string(i));
  distinct.Finish();
  EXPECT_EQ(reports.warnings.size(), DistinctReports::kTextsMax);
  EXPECT_THAT(reports.notes, ElementsAre("11 more reports of runs are not shown"));
}

TEST(ParallelRunsTest, OneJobIsOneThread) {
  RunControl control;
  std::atomic<int> running = 0;
  RunInParallel(
      20, 1, control,
      [&](std::size_t, RunControl&) {
        EXPECT_EQ(++running, 1);
        --running;
      },
      [](std::size_t) {});
}

// oneTBB ended the process where one of its threads was refused.
TEST(ParallelRunsTest, ThreadsThatAreThereDoTheWorkOfThoseThatTheSystemRefuses) {
  Reports reports;
  int done = 0;
  {
    const RefusedThreads after(2);
    RunInParallel(
        20, 8, reports, [](std::size_t, RunControl&) {}, [&](std::size_t) { ++done; });
  }
  EXPECT_EQ(done, 20);
  EXPECT_THAT(reports.warnings, ElementsAre(HasSubstr("2 threads work in place of 8")));
}

TEST(ParallelRunsTest, WithoutAnyThreadTheCallFails) {
  RunControl control;
  const RefusedThreads all(0);
  EXPECT_THROW(RunInParallel(
                   3, 8, control, [](std::size_t, RunControl&) {}, [](std::size_t) {}),
               std::system_error);
}

}  // namespace
}  // namespace twin::run

// Stands in front of the library's, for std::thread too.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*routine)(void*), void* argument) {
  if (twin::run::threads_left-- <= 0) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, routine, argument);
}
