#include "sched/policy/place_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "core/random.h"

namespace twin {
namespace {

// A map of the present keys is the model.
TEST(PlaceHeapTest, FindsTheSmallestOfThePresentKeysWhateverWasPushedBefore) {
  Random random(3, "places");
  PlaceHeap heap;
  std::map<std::uint32_t, std::int64_t> present;
  const auto holds = [&](RequestId id, std::int64_t key) {
    const auto found = present.find(Index(id));
    return found != present.end() && found->second == key;
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto id = static_cast<std::uint32_t>(random.UniformInt(0, 40));
    if (random.UnitReal() < 0.7) {
      present[id] = random.UniformInt(0, 1'000'000) * 64 + id;  // no two are equal
      heap.Push(RequestId{id}, present[id]);
    } else {
      present.erase(id);
    }
    heap.DropOutdated(holds);
    EXPECT_LE(heap.entries(), 2 * 41 + 64u);
    const auto first =
        std::min_element(present.begin(), present.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::optional<RequestId> found = heap.First(holds);
    ASSERT_EQ(found.has_value(), first != present.end());
    if (found) {
      ASSERT_EQ(Index(*found), first->first);
    }
  }
}

}  // namespace
}  // namespace twin
