// One token takes 1 us: 1,000 bytes at 8 Gbit/s.
#include "sim/world/kv_links.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace twin::sim {
namespace {

constexpr std::int32_t kLayers = 4;

constexpr TimePoint At(double us) {
  return kTimeZero + Duration{static_cast<std::int64_t>(us * 1000)};
}

LinkConfig LayerWise(std::int32_t min_tokens = 0) {
  return {.latency_us = 0,
          .bandwidth_gbps = 8,
          .layer_wise = true,
          .layer_wise_min_tokens = min_tokens};
}

// Of a prompt that is computed from 0 to 40 us.
KvTransfer Tokens(std::int32_t tokens, std::int32_t to = 1) {
  KvTransfer transfer;
  transfer.from = 0;
  transfer.to = to;
  transfer.tokens = tokens;
  transfer.computed = At(40);
  return transfer;
}

TimePoint EndOf(KvLinks& links, const KvTransfer& transfer, double now = 40) {
  return links.Send(At(now), transfer, At(0)).end;
}

TEST(KvLinksTest, SendsAWholePromptWhenItIsComputed) {
  KvLinks links({.latency_us = 2, .bandwidth_gbps = 8}, 1000, kLayers, 3);
  EXPECT_EQ(EndOf(links, Tokens(20)), At(62));
  EXPECT_EQ(EndOf(links, Tokens(20, 2)), At(82));  // behind the first one
}

// A layer takes 10 us to compute and a quarter of the tokens to send. 20 tokens: the last layer of
// 5 us follows at 40. 80 tokens: the first layer leaves at 10, and 80 us of bytes follow.
TEST(KvLinksTest, LayersAreSentBehindTheirComputation) {
  for (const auto& [tokens, end] :
       {std::pair(20, 45.0), std::pair(30, 47.5), std::pair(80, 90.0)}) {
    KvLinks links(LayerWise(), 1000, kLayers, 2);
    EXPECT_EQ(EndOf(links, Tokens(tokens)), At(end)) << tokens;
  }
}

// Two prompts of a step are sent as one of their length: the last layer of 10 us, or 10 + 120 us.
TEST(KvLinksTest, PromptsOfAStepShareTheTimeOfIt) {
  KvLinks fast(LayerWise(), 1000, kLayers, 3);
  EXPECT_EQ(EndOf(fast, Tokens(20)), At(45));
  EXPECT_EQ(EndOf(fast, Tokens(20, 2)), At(50));
  KvLinks slow(LayerWise(), 1000, kLayers, 3);
  EXPECT_EQ(EndOf(slow, Tokens(60)), At(70));
  EXPECT_EQ(EndOf(slow, Tokens(60, 2)), At(130));
}

TEST(KvLinksTest, ALateTargetFindsWhatHasBeenSent) {
  KvLinks links(LayerWise(), 1000, kLayers, 2);
  const KvLinks::Span span = links.Send(At(60), Tokens(20), At(0));
  EXPECT_EQ(span.begin, At(60));
  EXPECT_EQ(span.end, At(60));
  KvLinks partly(LayerWise(), 1000, kLayers, 2);
  EXPECT_EQ(EndOf(partly, Tokens(80), 60), At(90));
}

TEST(KvLinksTest, ShortPromptsAreSentWhenTheyAreComputed) {
  for (const auto& [tokens, end] : {std::pair(19, 59.0), std::pair(20, 45.0)}) {
    KvLinks links(LayerWise(20), 1000, kLayers, 2);
    EXPECT_EQ(EndOf(links, Tokens(tokens)), At(end)) << tokens;
  }
}

}  // namespace
}  // namespace twin::sim
