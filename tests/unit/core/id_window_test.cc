#include "core/id_window.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

TEST(IdWindowTest, HoldsWhatWasOpenedUntilItIsClosed) {
  IdWindow<int> window;
  window.Open(RequestId{3}) = 30;
  window.Open(RequestId{7}) = 70;
  EXPECT_EQ(window.size(), 2u);
  EXPECT_TRUE(window.contains(RequestId{3}));
  EXPECT_FALSE(window.contains(RequestId{4}));
  EXPECT_EQ(window[RequestId{7}], 70);
  window.Close(RequestId{3});
  EXPECT_FALSE(window.contains(RequestId{3}));
  EXPECT_EQ(window.size(), 1u);
  window.Close(RequestId{7});
  EXPECT_TRUE(window.empty());
}

TEST(IdWindowTest, TellsIdsApartThatShareASlot) {
  IdWindow<int> window;  // 64 slots at first: 1 and 65 share one
  window.Open(RequestId{1}) = 1;
  EXPECT_FALSE(window.contains(RequestId{65}));
  window.Close(RequestId{1});
  window.Open(RequestId{65}) = 65;
  EXPECT_FALSE(window.contains(RequestId{1}));
  EXPECT_EQ(window[RequestId{65}], 65);
}

TEST(IdWindowTest, GrowsWhenTheOldestStaysAlive) {
  IdWindow<std::uint32_t> window;
  for (std::uint32_t i = 0; i < 1000; ++i) window.Open(RequestId{i}) = i;
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(window[RequestId{i}], i);
}

TEST(IdWindowTest, ReopenedSlotKeepsItsContainersCapacity) {
  IdWindow<std::vector<int>> window;
  window.Open(RequestId{0}).assign(100, 1);
  window.Close(RequestId{0});
  for (std::uint32_t i = 1; i < 64; ++i) {
    window.Open(RequestId{i});
    window.Close(RequestId{i});
  }
  EXPECT_GE(window.Open(RequestId{64}).capacity(), 100u);
}

TEST(IdWindowTest, VisitsInRisingOrder) {
  IdWindow<int> window;
  for (std::uint32_t i = 60; i < 70; ++i) window.Open(RequestId{i}) = static_cast<int>(i);
  window.Close(RequestId{64});
  std::vector<std::uint32_t> visited;
  window.ForEach([&](RequestId id, int value) {
    EXPECT_EQ(value, static_cast<int>(Index(id)));
    visited.push_back(Index(id));
  });
  EXPECT_EQ(visited, (std::vector<std::uint32_t>{60, 61, 62, 63, 65, 66, 67, 68, 69}));
}

// A std::map is the model: random opens with gaps and random closes, compared after every step.
TEST(IdWindowTest, AgreesWithAMapUnderRandomUse) {
  Random random(11, "id window");
  IdWindow<std::uint64_t> window;
  std::map<std::uint32_t, std::uint64_t> model;
  std::uint32_t next = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (model.empty() || random.UnitReal() < 0.5) {
      next += static_cast<std::uint32_t>(random.UniformInt(1, 5));
      model[next] = window.Open(RequestId{next}) = random.Next();
    } else {
      auto it = model.begin();
      std::advance(it, random.UniformInt(0, std::min<std::int64_t>(
                                                20, static_cast<std::int64_t>(model.size()) - 1)));
      ASSERT_EQ(window[RequestId{it->first}], it->second);
      window.Close(RequestId{it->first});
      model.erase(it);
    }
    ASSERT_EQ(window.size(), model.size());
  }
  std::vector<std::pair<std::uint32_t, std::uint64_t>> left;
  window.ForEach([&](RequestId id, std::uint64_t value) { left.emplace_back(Index(id), value); });
  EXPECT_EQ(left,
            (std::vector<std::pair<std::uint32_t, std::uint64_t>>(model.begin(), model.end())));
}

TEST(IdWindowDeathTest, RefusesFallingIdsAndUnknownIds) {
  IdWindow<int> window;
  window.Open(RequestId{5});
  EXPECT_DEATH(window.Open(RequestId{5}), "check failed");
  EXPECT_DEATH(window.Close(RequestId{4}), "check failed");
  EXPECT_DEATH(window[RequestId{6}], "check failed");
}

}  // namespace
}  // namespace twin
