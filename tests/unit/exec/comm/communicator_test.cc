// Ranks that are threads.
#include "exec/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "exec/comm/agreement.h"
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

// Rank 0 shows its bytes and is done with them as soon as it is back, with an error or without; the
// abort hits the copying in some of the rounds.
TEST(ThreadGroupTest, AnAbortDoesNotEndACollectiveWhileOthersReadOnesMemory) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  for (int round = 0; round < 20; ++round) {
    const auto ends = MakeThreadGroup(3, kLong);
    std::vector<std::byte> copies[2];
    std::string errors[3];
    const auto take = [&](std::size_t reader) {
      copies[reader].resize(kBytes);
      errors[reader] = ErrorOf([&] { ends[reader + 1]->Broadcast(copies[reader], 0); });
    };
    std::thread readers[] = {std::thread(take, 0), std::thread(take, 1)};
    std::thread stopper([&] {
      std::this_thread::sleep_for(round * std::chrono::microseconds(200));
      ends[0]->Abort("enough");
    });
    std::vector<std::byte> bytes(kBytes, std::byte{7});
    errors[2] = ErrorOf([&] { ends[0]->Broadcast(bytes, 0); });
    bytes.assign(kBytes, std::byte{9});
    for (std::thread& reader : readers) reader.join();
    stopper.join();
    for (std::size_t reader = 0; reader < 2; ++reader) {
      // All of them took part, or none.
      ASSERT_EQ(errors[reader] == "no error", errors[2] == "no error");
      const std::byte expected{static_cast<unsigned char>(errors[2] == "no error" ? 7 : 0)};
      EXPECT_TRUE(copies[reader] == std::vector<std::byte>(kBytes, expected)) << "round " << round;
    }
  }
}

// Behind the limit of rank 0 its values are gone: who comes later must not sum them.
TEST(ThreadGroupTest, NobodyMeetsARankThatHasGivenUp) {
  const auto ends = MakeThreadGroup(2, kShort);
  {
    std::vector<float> values(1000, 1.0F);
    EXPECT_THAT(ErrorOf([&] { ends[0]->AllReduceSum(values); }),
                HasSubstr("rank 1 did not come within 0.2 s"));
  }
  std::vector<float> values(1000, 1.0F);
  EXPECT_EQ(ErrorOf([&] { ends[1]->AllReduceSum(values); }),
            "rank 1: all-reduce: rank 0 has given up");
}

TEST(ThreadGroupTest, AMessageThatDoesNotComeNamesItsSender) {
  const auto ends = MakeThreadGroup(2, kShort);
  std::byte byte{};
  EXPECT_THAT(ErrorOf([&] { ends[1]->Receive(std::span(&byte, 1), 0, Patience::kBounded); }),
              StartsWith("rank 1: receive: rank 0 did not come within 0.2 s"));
}

// What a body does is its own work, however long: loading a model is not being late.
TEST(SucceedTogetherTest, WaitsForABodyBeyondTheLimit) {
  std::vector<int> succeeded(3);
  RunThreadRanks(3, kShort, [&](Communicator& group) {
    const auto body = [&] {
      if (group.rank() > 0) std::this_thread::sleep_for(3 * group.rank() * kShort);
    };
    succeeded[static_cast<std::size_t>(group.rank())] = SucceedTogether(group, body) ? 1 : 0;
  });
  EXPECT_EQ(succeeded, (std::vector<int>{1, 1, 1}));
}

TEST(SucceedTogetherTest, TheLowestRankThatFailedSaysWhy) {
  std::vector<std::string> ends(4);
  RunThreadRanks(4, kLong, [&](Communicator& group) {
    std::string& end = ends[static_cast<std::size_t>(group.rank())];
    try {
      const bool all = SucceedTogether(group, [&] {
        if (group.rank() % 2 == 1) throw std::runtime_error("rank " + std::to_string(group.rank()));
      });
      end = all ? "all" : "another";
    } catch (const std::runtime_error& error) {
      end = error.what();
    }
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"another", "rank 1", "another", "another"}));
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
