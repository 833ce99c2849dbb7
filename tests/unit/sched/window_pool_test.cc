#include "sched/cache/window_pool.h"

#include <gtest/gtest.h>

namespace twin {
namespace {

TEST(WindowPoolTest, PagesBelongToABlockOrLieFree) {
  WindowPool pool(2, 5);
  EXPECT_EQ(pool.free(), 2);
  pool.Give(BlockId{4});
  pool.Give(BlockId{0});
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.Has(BlockId{4}));
  EXPECT_FALSE(pool.Has(BlockId{1}));
  EXPECT_TRUE(pool.Audit());
  pool.Move(BlockId{4}, BlockId{1});
  EXPECT_FALSE(pool.Has(BlockId{4}));
  EXPECT_TRUE(pool.Has(BlockId{1}));
  pool.Take(BlockId{1});
  pool.Take(BlockId{0});
  EXPECT_EQ(pool.free(), 2);
  EXPECT_TRUE(pool.Audit());
}

TEST(WindowPoolDeathTest, HandsOutNoPageTwice) {
  WindowPool pool(1, 3);
  pool.Give(BlockId{2});
  EXPECT_DEATH(pool.Give(BlockId{1}), "free_");  // none is free
  EXPECT_DEATH(pool.Take(BlockId{1}), "Has");    // it has none
  EXPECT_DEATH(pool.Move(BlockId{1}, BlockId{0}), "Has");
  EXPECT_TRUE(pool.Audit());
}

}  // namespace
}  // namespace twin
