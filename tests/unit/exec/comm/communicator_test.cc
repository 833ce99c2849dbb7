// Ranks that are threads, and a rank by itself.
#include "exec/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "exec/comm/self_communicator.h"
#include "exec/comm/thread_ranks.h"
#include "tests/support/collective_checks.h"

namespace twin::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr Duration kShort = std::chrono::milliseconds(200);
// No test waits for as long as this one; that a wait ended means that something else ended it.
constexpr Duration kLong = std::chrono::minutes(10);

template <class Body>
std::string ErrorOf(const Body& body) {
  try {
    body();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SelfCommunicatorTest, GivesBackWhatItGot) {
  SelfCommunicator alone;
  EXPECT_THAT(testing::CheckCollectives(alone), IsEmpty());
}

TEST(SelfCommunicatorTest, DoesNothingBehindAnAbort) {
  SelfCommunicator alone;
  alone.Abort("enough");
  EXPECT_EQ(ErrorOf([&] { alone.Barrier(); }), "rank 0: barrier: aborted: enough");
}

class ThreadRanksTest : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(ThreadRanksTest, CollectivesGiveTheSameBitsOnEveryRank) {
  std::mutex mutex;
  std::vector<std::string> wrong;
  RunThreadRanks(GetParam(), kRankTimeout, [&](Communicator& group) {
    const std::vector<std::string> own = testing::CheckCollectives(group);
    const std::lock_guard lock(mutex);
    wrong.insert(wrong.end(), own.begin(), own.end());
  });
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_P(ThreadRanksTest, AnExceptionOfOneRankEndsTheOthersWhereTheyWait) {
  const std::int32_t ranks = GetParam() + 1;
  const std::function<void(Communicator&)> waits[] = {
      [](Communicator& group) { group.Barrier(); },
      [](Communicator& group) {
        std::vector<float> values(9, 1.0F);
        group.AllReduceSum(values);
      },
      [](Communicator& group) {
        std::byte byte{};
        group.Receive(std::span(&byte, 1), group.size() - 1, Patience::kUnbounded);
      },
      [](Communicator& group) { group.Split(0)->Barrier(); },
  };
  for (const auto& wait : waits) {
    std::mutex mutex;
    std::vector<std::string> errors;
    const auto body = [&](Communicator& group) {
      if (group.rank() == group.size() - 1) throw std::runtime_error("out of memory");
      const std::string error = ErrorOf([&] { wait(group); });
      const std::lock_guard lock(mutex);
      errors.push_back(error);
    };
    EXPECT_THROW(RunThreadRanks(ranks, kLong, body), std::runtime_error);
    ASSERT_EQ(errors.size(), static_cast<std::size_t>(ranks - 1));
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AllOf(StartsWith("rank "), HasSubstr("aborted: out of memory")));
    }
  }
}

TEST_P(ThreadRanksTest, AnAbortReachesEveryGroupOfTheFamily) {
  const std::int32_t ranks = GetParam();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  RunThreadRanks(ranks, kLong, [&](Communicator& group) {
    const std::unique_ptr<Communicator> part = group.Split(group.rank() % 2);
    group.Barrier();
    if (group.rank() == 0) part->Abort("enough");
    // Rank 1 and 3 are in a group of their own.
    errors[static_cast<std::size_t>(group.rank())] = ErrorOf([&] {
      for (;;) part->Barrier();
    });
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("barrier: aborted: enough"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadRanksTest, ::testing::Values(1, 2, 3, 4));

TEST(ThreadGroupTest, ARankThatDoesNotComeIsNamedWhenTheLimitHasPassed) {
  const auto ends = MakeThreadGroup(3, kShort);
  std::string errors[2];
  std::thread other([&] { errors[1] = ErrorOf([&] { ends[1]->Barrier(); }); });
  errors[0] = ErrorOf([&] { ends[0]->Barrier(); });
  other.join();
  EXPECT_THAT(errors[0], StartsWith("rank 0: barrier: rank 2 did not come within 0.2 s"));
  EXPECT_THAT(errors[1], StartsWith("rank 1: barrier: rank 2 did not come within 0.2 s"));
}

TEST(ThreadGroupTest, AMessageThatDoesNotComeNamesItsSender) {
  const auto ends = MakeThreadGroup(2, kShort);
  std::byte byte{};
  EXPECT_THAT(ErrorOf([&] { ends[1]->Receive(std::span(&byte, 1), 0, Patience::kBounded); }),
              StartsWith("rank 1: receive: rank 0 did not come within 0.2 s"));
}

TEST(ThreadGroupTest, PatientReceiversWaitBeyondTheLimit) {
  RunThreadRanks(2, kShort, [](Communicator& group) {
    std::byte byte{1};
    if (group.rank() == 0) {
      std::this_thread::sleep_for(3 * kShort);
      group.Send(std::span(&byte, 1), 1);
    } else {
      group.Receive(std::span(&byte, 1), 0, Patience::kUnbounded);
    }
  });
}

TEST(RunThreadRanksTest, ThrowsWhatWasThrownFirst) {
  try {
    RunThreadRanks(4, kLong, [](Communicator& group) {
      if (group.rank() == 2) throw std::invalid_argument("bad layer");
      group.Barrier();
    });
    FAIL() << "nothing thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "bad layer");
  }
}

}  // namespace
}  // namespace twin::exec
