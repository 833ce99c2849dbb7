// SGLang with a window pool. Expected values: by hand from tests/golden/README.md's source.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sched/policy/policy_config.h"
#include "sched/policy/sglang.h"
#include "sched/testing/scene.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

// No tree, no chunks, one step at a time; half as many pages as blocks.
SglangConfig Windowed(std::int32_t window) {
  SglangConfig config;
  config.radix_cache = false;
  config.chunked_prefill_size = -1;
  config.overlap = false;
  config.init_new_token_ratio = 0.5;
  config.min_new_token_ratio_factor = 1.0;
  config.window = window;
  config.swa_full_tokens_ratio = 0.5;
  config.swa_eviction_interval = 1;
  return config;
}

// Free pages of the window pool after each of the first `steps` steps of a prompt of 6 tokens.
std::vector<std::int32_t> FreePages(const SglangConfig& config, int steps) {
  const KvPoolConfig kv{.block_size = 1, .blocks = 40};
  Scene scene(MakePolicy(config, kv), {.block_size = 1, .blocks = 40});
  scene.Given({.running = {}, .waiting = {{.prompt = 6, .output = 30}}});
  std::vector<std::int32_t> free;
  for (int i = 0; i < steps; ++i) {
    scene.NextBatch();
    free.push_back(scene.engine().policy().window_pool()->free);
    scene.engine().CheckMemory();
  }
  return free;
}

// 20 pages, a window of 2. The first decode frees nothing; the second, of token 8, frees the 5
// pages before the window of the 7 tokens in the cache.
TEST(SglangWindowTest, DecodesFreeBehindTheWindow) {
  EXPECT_EQ(FreePages(Windowed(2), 5), (std::vector<std::int32_t>{14, 13, 17, 17, 17}));
}

// In bursts of 3: up to token 5 at the second decode, then up to 8 when 8 are behind the window.
TEST(SglangWindowTest, PagesGoInBursts) {
  SglangConfig config = Windowed(2);
  config.swa_eviction_interval = 3;
  EXPECT_EQ(FreePages(config, 7), (std::vector<std::int32_t>{14, 13, 17, 16, 15, 17, 16}));
}

// Windows of 8, 6 pages: A can never be admitted, since it takes a window and a page. B is, once A
// is refused.
TEST(SglangWindowTest, WhatCanNeverRunIsRefused) {
  SglangConfig config = Windowed(8);
  config.swa_full_tokens_ratio = 0.3;
  const KvPoolConfig kv{.block_size = 1, .blocks = 20};
  Scene scene(MakePolicy(config, kv), {.block_size = 1, .blocks = 20});
  scene.Given({.running = {}, .waiting = {{.prompt = 6, .output = 6}, {.prompt = 2, .output = 2}}});
  EXPECT_TRUE(scene.BatchNow().empty());
  EXPECT_EQ(scene.engine().wake_at(), TimePoint{Duration{1000}});
  EXPECT_EQ(scene.NextBatch(), Batch({Prefill('B', 2)}));
  EXPECT_EQ(scene.now(), TimePoint{Duration{1000}} + std::chrono::milliseconds(1));
  EXPECT_EQ(scene.engine().census().waiting, 0);
}

// 10 pages, a window of 8 and a need of 9. Nothing is freed in the 10 tokens that fit, and the last
// request that cannot go on is given up.
TEST(SglangWindowTest, TheLastRequestIsGivenUpWhereItsWindowDoesNotFit) {
  SglangConfig config = Windowed(8);
  config.swa_eviction_interval = 128;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 20}, {{1, 4, 10}}),
            "it1: A:P4 | free=16\n"
            "it2: A:D1 | free=15\n"
            "it3: A:D1 | free=14\n"
            "it4: A:D1 | free=13\n"
            "it5: A:D1 | free=12\n"
            "it6: A:D1 | free=11\n"
            "it7: A:D1 | free=10\n"
            "it8: | pre=[A] | rej=[A] | free=20\n");
}

// 10 pages, a window of 4, chunks of 8. The need of 20 tokens is (8 - 4) + 4 + 1 = 9 < 10. Each
// chunk leaves room for a page: 8, then what the pages behind the window leave.
TEST(SglangWindowTest, ChunksAreDividedByTheWindowPool) {
  SglangConfig config = Windowed(4);
  config.swa_full_tokens_ratio = 0.25;
  config.chunked_prefill_size = 8;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 40}, {{1, 20, 1}}),
            "it1: A:P8 | free=32\n"
            "it2: A:P1 | free=31\n"
            "it3: A:P4 | free=27\n"
            "it4: A:P1 | free=26\n"
            "it5: A:P4 | free=22\n"
            "it6: A:P1 | free=21\n"
            "it7: A:P1 | free=20 | fin=[A] | freeA=40\n");
}

}  // namespace
}  // namespace twin::testing
