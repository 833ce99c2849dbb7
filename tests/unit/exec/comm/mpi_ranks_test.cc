// Ranks that are processes under mpirun, and what becomes of the others when one fails.
#include "exec/comm/mpi_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/mpi_job.h"

namespace twin::exec {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::MpiJobOutcome;

MpiJobOutcome RunRanks(int ranks, std::vector<std::string> words) {
  words.insert(words.begin(), TWIN_MPI_RANK);
  return testing::RunMpiJob(::testing::TempDir(), ranks, words);
}

// The limit of a wait is 2 s in these jobs; a machine with other work on it takes its time to start
// and end processes.
constexpr double kSecondsMax = 20;

class MpiRanksTest : public ::testing::TestWithParam<int> {};

TEST_P(MpiRanksTest, CollectivesGiveTheSameBitsOnEveryRank) {
  const MpiJobOutcome outcome = RunRanks(GetParam(), {"check"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, std::to_string(GetParam()) + " ranks checked\n");
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiRanksTest, ::testing::Values(1, 2, 3, 4));

TEST(MpiFailureTest, AKilledRankEndsTheJobWithinSeconds) {
  for (const char* const rank : {"0", "2"}) {
    const MpiJobOutcome outcome = RunRanks(3, {"kill", rank});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_LT(outcome.seconds, kSecondsMax);
    EXPECT_THAT(outcome.err, HasSubstr("rank " + std::string(rank)));
  }
}

TEST(MpiFailureTest, ARankThatStandsStillIsNamedWithTheOperation) {
  const MpiJobOutcome outcome = RunRanks(3, {"stop", "1"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_LT(outcome.seconds, kSecondsMax);
  EXPECT_THAT(outcome.err, AnyOf(HasSubstr("rank 0: all-reduce: rank 1 did not come within 2 s"),
                                 HasSubstr("rank 2: all-reduce: rank 1 did not come within 2 s")));
}

// Each of the 15 groups would wait for its own message's end for the limit of 2 s.
TEST(MpiFailureTest, AfterAFailureNobodyWaitsForMessagesToGo) {
  const MpiJobOutcome outcome = RunRanks(3, {"strand", "1"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_LT(outcome.seconds, kSecondsMax);
  EXPECT_THAT(outcome.err, HasSubstr("all-reduce: rank 1 did not come within 2 s"));
}

TEST(MpiFailureTest, AnExceptionOfOneRankEndsTheJobWithItsExitCode) {
  const MpiJobOutcome outcome = RunRanks(2, {"throw", "1"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_LT(outcome.seconds, kSecondsMax);
  EXPECT_THAT(outcome.err, HasSubstr("out of memory\n"));
}

TEST(BuiltWithMpiTest, SaysWhatItWasBuiltWith) { EXPECT_NE(BuiltWithMpi(), ""); }

}  // namespace
}  // namespace twin::exec
