#include "core/id_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace twin {
namespace {

class IdTableTest : public ::testing::TestWithParam<IdShare> {};

TEST_P(IdTableTest, HoldsWhatWasOpenedUntilItIsClosed) {
  IdTable<int> table(GetParam());
  table.Open(RequestId{3}) = 30;
  table.Open(RequestId{70}) = 700;
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(table.contains(RequestId{3}));
  EXPECT_FALSE(table.contains(RequestId{4}));
  EXPECT_EQ(table[RequestId{70}], 700);
  EXPECT_EQ(*table.Find(RequestId{3}), 30);
  table.Close(RequestId{3});
  EXPECT_EQ(table.Find(RequestId{3}), nullptr);
  table.Close(RequestId{70});
  EXPECT_TRUE(table.empty());
}

TEST_P(IdTableTest, VisitsInRisingOrder) {
  IdTable<int> table(GetParam());
  for (std::uint32_t i = 0; i < 40; ++i) table.Open(RequestId{i * 9 + 1}) = 0;
  std::vector<RequestId> visited;
  table.ForEach([&](RequestId id, int) { visited.push_back(id); });
  ASSERT_EQ(visited.size(), 40u);
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_EQ(visited[i], RequestId{i * 9 + 1});
}

INSTANTIATE_TEST_SUITE_P(Shares, IdTableTest, ::testing::Values(IdShare::kAll, IdShare::kFew));

}  // namespace
}  // namespace twin
