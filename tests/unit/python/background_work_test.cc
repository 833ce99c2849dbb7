// Work on a thread of its own never outlives its owner, and never ends the process.
#include "apps/python/background_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace twin::python {
namespace {

using std::chrono::milliseconds;

// Works until it is asked to stop.
struct Endless {
  std::atomic<bool> stop{false};
  std::atomic<bool> ended{false};

  void Work() {
    while (!stop.load()) std::this_thread::yield();
    ended.store(true);
  }
};

// A thread that is neither joined nor detached ends the process.
TEST(BackgroundWorkTest, AnExceptionOfTheOwnerStopsTheWorkAndWaitsForIt) {
  Endless endless;
  try {
    BackgroundWork background([&] { endless.Work(); }, [&] { endless.stop.store(true); });
    EXPECT_FALSE(background.WaitFor(milliseconds(0)));
    throw std::runtime_error("neither the work nor Python");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(endless.ended.load());
  }
}

TEST(BackgroundWorkTest, WorkThatIsStoppedEnds) {
  Endless endless;
  BackgroundWork background([&] { endless.Work(); }, [&] { endless.stop.store(true); });
  endless.stop.store(true);
  while (!background.WaitFor(milliseconds(1000))) continue;
  EXPECT_EQ(background.Join(), nullptr);
  EXPECT_TRUE(endless.ended.load());
}

TEST(BackgroundWorkTest, AnExceptionOfTheWorkIsKeptForItsOwner) {
  BackgroundWork background([] { throw std::out_of_range("enough"); }, [] {});
  const std::exception_ptr error = background.Join();
  ASSERT_NE(error, nullptr);
  EXPECT_THROW(std::rethrow_exception(error), std::out_of_range);
}

}  // namespace
}  // namespace twin::python
