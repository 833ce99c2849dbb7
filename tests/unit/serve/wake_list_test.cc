// Who is woken, how often, and who must call.
#include "apps/serve/protocol/wake_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace twin::serve {
namespace {

using testing::ElementsAre;

const auto kNobody = [](std::int64_t, std::size_t) {};
const auto kNothing = [] {};

TEST(WakeListTest, TheFirstWhoAddsMustCallForAll) {
  WakeList<int> list;
  EXPECT_TRUE(list.Add(std::make_shared<int>(1)));
  EXPECT_FALSE(list.Add(std::make_shared<int>(2)));
  std::vector<int> woken;
  EXPECT_FALSE(list.WakeAll(
      kNobody, [&](int waker) { woken.push_back(waker); }, kNothing));
  EXPECT_THAT(woken, ElementsAre(1, 2));
  EXPECT_TRUE(list.Add(std::make_shared<int>(3)));  // the call is over
}

TEST(WakeListTest, WhoComesDuringACallIsWokenInTheNext) {
  WakeList<int> list;
  EXPECT_TRUE(list.Add(std::make_shared<int>(1)));
  std::vector<int> woken;
  EXPECT_TRUE(list.WakeAll(
      kNobody,
      [&](int waker) {
        woken.push_back(waker);
        EXPECT_FALSE(list.Add(std::make_shared<int>(2)));
      },
      kNothing));
  EXPECT_THAT(woken, ElementsAre(1));
  EXPECT_FALSE(list.WakeAll(
      kNobody, [&](int waker) { woken.push_back(waker); }, kNothing));
  EXPECT_THAT(woken, ElementsAre(1, 2));
}

TEST(WakeListTest, GivesUpWhomItHasWoken) {
  WakeList<int> list;
  const auto waker = std::make_shared<int>(1);
  EXPECT_TRUE(list.Add(waker));
  EXPECT_FALSE(list.WakeAll(
      kNobody, [](int) {}, kNothing));
  EXPECT_EQ(waker.use_count(), 1);
}

TEST(WakeListTest, HoldsAllUntilWhatFollowsTheLastOne) {
  WakeList<int> list;
  auto waker = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = waker;
  EXPECT_TRUE(list.Add(std::move(waker)));
  EXPECT_FALSE(list.Add(std::make_shared<int>(2)));
  std::vector<int> called;
  EXPECT_FALSE(list.WakeAll(
      kNobody, [&](int woken) { called.push_back(woken); },
      [&] {
        EXPECT_FALSE(watched.expired());
        called.push_back(0);
      }));
  EXPECT_THAT(called, ElementsAre(1, 2, 0));
  EXPECT_TRUE(watched.expired());
}

// In each stage a place further ahead, so that a stage finds what the one before it has fetched.
TEST(WakeListTest, TellsInStagesWhoWillBeWokenSoon) {
  WakeList<int> list;
  EXPECT_TRUE(list.Add(std::make_shared<int>(0)));
  for (int i = 1; i < 8; ++i) EXPECT_FALSE(list.Add(std::make_shared<int>(i)));
  constexpr int kPlaces[] = {6, 4, 2};
  std::vector<std::vector<int>> ahead(3);
  int now = -1;
  EXPECT_FALSE(list.WakeAll(
      [&](int waker, std::size_t stage) {
        ahead[stage].push_back(waker);
        EXPECT_EQ(waker, now + 1 + kPlaces[stage]);
      },
      [&](int waker) { now = waker; }, kNothing));
  EXPECT_EQ(now, 7);
  EXPECT_THAT(ahead, ElementsAre(ElementsAre(6, 7), ElementsAre(4, 5, 6, 7),
                                 ElementsAre(2, 3, 4, 5, 6, 7)));
}

// Each call that Add() asks for is made by one thread, as the server's loop does.
TEST(WakeListTest, LosesNobodyBetweenThreads) {
  constexpr std::int64_t kThreads = 4;
  constexpr std::int64_t kEach = 2000;
  WakeList<std::int64_t> list;
  std::atomic<std::int64_t> calls = 0;
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::int64_t j = 0; j < kEach; ++j) {
        if (list.Add(std::make_shared<std::int64_t>(i * kEach + j))) ++calls;
      }
    });
  }
  std::vector<int> woken(kThreads * kEach);
  std::int64_t count = 0;
  while (count < kThreads * kEach) {
    if (calls == 0) {
      std::this_thread::yield();
      continue;
    }
    --calls;
    const bool more = list.WakeAll(
        kNobody,
        [&](std::int64_t waker) {
          ++woken[static_cast<std::size_t>(waker)];
          ++count;
        },
        kNothing);
    if (more) ++calls;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(woken, testing::Each(1));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace twin::serve
