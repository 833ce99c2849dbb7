#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace twin::kernels {
namespace {

TEST(ThreadPoolTest, CoversEachIndexOnceInRangesOfTheGrain) {
  for (const std::int32_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 6, 7, 8, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      std::atomic<bool> aligned = true;
      pool.ParallelFor(count, 7, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
        if (begin % 7 != 0 || end - begin > 7 || thread < 0 || thread >= threads) aligned = false;
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_TRUE(aligned);
      for (const std::atomic<int>& visit : visits) EXPECT_EQ(visit, 1);
    }
  }
}

TEST(ThreadPoolTest, OneThreadRunsInlineInOrder) {
  ThreadPool pool(1);
  std::vector<std::int64_t> begins;
  pool.ParallelFor(
      10, 4, [&](std::int64_t begin, std::int64_t, std::int32_t) { begins.push_back(begin); });
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 4, 8}));
}

// Each range waits for all the others to have started, which needs as many threads as ranges.
TEST(ThreadPoolTest, RangesRunAtTheSameTime) {
  ThreadPool pool(3);
  std::atomic<int> started = 0;
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::set<std::int32_t> numbers;
  pool.ParallelFor(3, 1, [&](std::int64_t, std::int64_t, std::int32_t thread) {
    ++started;
    while (started < 3) std::this_thread::yield();
    const std::scoped_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
    numbers.insert(thread);
  });
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(numbers, (std::set<std::int32_t>{0, 1, 2}));
}

// Late workers must never act on a call that has returned: the sums would be off.
TEST(ThreadPoolTest, ManyShortCallsInARowStayApart) {
  ThreadPool pool(4);
  for (std::int64_t call = 0; call < 20000; ++call) {
    std::atomic<std::int64_t> sum = 0;
    const std::int64_t count = 1 + call % 9;
    pool.ParallelFor(count, 1,
                     [&](std::int64_t begin, std::int64_t, std::int32_t) { sum += begin + call; });
    ASSERT_EQ(sum, count * (count - 1) / 2 + count * call);
  }
}

TEST(ThreadPoolTest, WakesThreadsThatHaveGoneToSleep) {
  ThreadPool pool(2);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> started = 0;
    pool.ParallelFor(2, 1, [&](std::int64_t, std::int64_t, std::int32_t) {
      ++started;
      while (started < 2) std::this_thread::yield();
    });
    EXPECT_EQ(started, 2);
  }
}

TEST(ThreadPoolDeathTest, RefusesAnEmptyPool) { EXPECT_DEATH(ThreadPool(0), "check failed"); }

}  // namespace
}  // namespace twin::kernels
