// Pieces of work that threads share with their caller.
#include "run/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace twin::run {
namespace {

class ThreadTeamTest : public ::testing::TestWithParam<int> {};

// Plain numbers, written by whoever does the work: the caller sees them.
TEST_P(ThreadTeamTest, DoesEachPieceOnceAndTheFirstOneOnTheCallersThread) {
  ThreadTeam team(GetParam());
  std::vector<int> done(100);
  std::thread::id of_first;
  for (int round = 1; round <= 50; ++round) {
    team.Run(
        done.size(), [&] { of_first = std::this_thread::get_id(); },
        [&](std::size_t i) { done[i] += static_cast<int>(i); });
    for (std::size_t i = 0; i < done.size(); ++i) {
      ASSERT_EQ(done[i], round * static_cast<int>(i));
    }
  }
  EXPECT_EQ(of_first, std::this_thread::get_id());
}

TEST_P(ThreadTeamTest, ThrowsTheErrorOfTheLowestPieceBehindAllOthers) {
  ThreadTeam team(GetParam());
  std::atomic<int> done = 0;
  const auto work = [&](std::size_t i) {
    ++done;
    if (i % 10 == 3) throw std::runtime_error("piece " + std::to_string(i));
  };
  try {
    team.Run(
        40, [] {}, work);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "piece 3");
  }
  EXPECT_EQ(done, 40);
}

TEST_P(ThreadTeamTest, ThrowsTheErrorOfTheFirstOne) {
  ThreadTeam team(GetParam());
  std::atomic<int> done = 0;
  EXPECT_THROW(team.Run(
                   5, [] { throw std::logic_error("first"); }, [&](std::size_t) { ++done; }),
               std::logic_error);
  EXPECT_EQ(done, 5);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadTeamTest, ::testing::Values(1, 2, 4));

// Both pieces wait for each other.
TEST(ThreadsTest, RunAtTheSameTime) {
  ThreadTeam team(2);
  std::atomic<int> begun = 0;
  team.Run(
      2, [] {},
      [&](std::size_t) {
        ++begun;
        while (begun < 2) std::this_thread::yield();
      });
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace twin::run
