// Pieces of work on several threads: what they report, and how many run at a time.
#include "lab/study/parallel_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "lab/study/distinct_reports.h"

namespace twin::lab {
namespace {

using ::testing::ElementsAre;

class Reports final : public RunControl {
 public:
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  void OnNote(const std::string& text) override { notes.push_back(text); }
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
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

// The arena limits the threads; oneTBB's limit for the process only rises.
TEST(ParallelRunsTest, OneJobIsOneThreadAndLeavesTheProcessItsThreads) {
  constexpr auto kLimit = oneapi::tbb::global_control::max_allowed_parallelism;
  const std::size_t before = oneapi::tbb::global_control::active_value(kLimit);
  RunControl control;
  std::atomic<int> running = 0;
  RunInParallel(
      20, 1, control,
      [&](std::size_t, RunControl&) {
        EXPECT_EQ(++running, 1);
        EXPECT_GE(oneapi::tbb::global_control::active_value(kLimit), before);
        --running;
      },
      [](std::size_t) {});
}

}  // namespace
}  // namespace twin::lab
