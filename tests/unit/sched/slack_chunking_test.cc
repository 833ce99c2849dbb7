// Expected values: by hand.
#include "sched/policy/slack_chunking.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/input_error.h"
#include "sched/policy/sarathi.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

using std::chrono::milliseconds;

// 1.2 (8 ms + 40 us n) <= slack: n <= 216 for 20 ms, 425 for 30 ms, 1883 for 100 ms. A context of a
// million tokens takes 20 ms more: n <= 341 for 50 ms.
TEST(SlackChunkingTest, TheLargestStepThatIsEstimatedToEndInTime) {
  const SlackChunking chunking;
  EXPECT_EQ(chunking.TokensWithin(milliseconds(20), 0, 2048), 128);
  EXPECT_EQ(chunking.TokensWithin(milliseconds(30), 0, 2048), 256);
  EXPECT_EQ(chunking.TokensWithin(milliseconds(100), 0, 2048), 1024);
  EXPECT_EQ(chunking.TokensWithin(milliseconds(200), 0, 2552), 2552);
  EXPECT_EQ(chunking.TokensWithin(milliseconds(50), 1'000'000, 2048), 256);
  EXPECT_EQ(chunking.TokensWithin(milliseconds(-5), 0, 2048), 128) << "even if all is too late";
  EXPECT_EQ(chunking.TokensWithin(Duration::max(), 0, 128), 128);
}

// A token is estimated to take a nanosecond, and an iteration takes one.
SarathiConfig SmallConfig(const std::vector<ServiceTier>& tiers) {
  SarathiConfig config;
  config.chunk_size = 16;
  config.max_num_seqs = 8;
  config.watermark = 0;
  config.order = OrderConfig{.kind = OrderConfig::Kind::kEdf, .tiers = tiers};
  config.slack_chunking = SlackChunking{.least_chunk_size = 4,
                                        .safety_factor = 1,
                                        .step_time = Duration{0},
                                        .token_time = Duration{1},
                                        .context_token_time = Duration{0}};
  return config;
}

Asked OfTenant(std::uint32_t tenant, std::int32_t step, std::int32_t prompt, std::int32_t output) {
  return {.step = step, .prompt = prompt, .output = output, .tenant = tenant};
}

// A's tokens are due at 2, 8, 14 and 20. That leaves 6 in it2, 11 in it3 and 16 in it4: chunks of
// 4, 8 and 16, less A's own token.
TEST(SlackChunkingTest, ChunksGrowWithTheSlackOfTheDecodes) {
  const SarathiConfig config = SmallConfig(
      {{.ttft = Duration{1}, .tbt = Duration{6}}, {.ttft = Duration{40}, .tbt = Duration{100}}});
  EXPECT_EQ(Decided(config, {.blocks = 20}, {OfTenant(0, 1, 4, 4), OfTenant(1, 2, 30, 1)}),
            "it1: A:P4 | free=19\n"
            "it2: B:P3 A:D1 | free=10\n"
            "it3: B:P7 A:D1 | free=10\n"
            "it4: B:P15 A:D1 | free=10 | fin=[A] | freeA=12\n"
            "it5: B:P5 | free=12 | fin=[B] | freeA=20\n");
}

// A's prompt has begun when B comes, whose first token is due earlier.
TEST(SlackChunkingTest, AMoreUrgentPromptGoesFirstAlthoughAnotherHasBegun) {
  const SarathiConfig config = SmallConfig({{.ttft = Duration{100}}, {.ttft = Duration{20}}});
  EXPECT_EQ(Decided(config, {.blocks = 20}, {OfTenant(0, 1, 40, 1), OfTenant(1, 2, 10, 1)}),
            "it1: A:P16 | free=10\n"
            "it2: B:P10 A:P6 | free=7 | fin=[B] | freeA=10\n"
            "it3: A:P16 | free=10\n"
            "it4: A:P2 | free=10 | fin=[A] | freeA=20\n");
}

// A's 40 tokens cannot be computed within 20.
TEST(SlackChunkingTest, APromptThatWillBeLateGoesBehindTheOthers) {
  SarathiConfig config = SmallConfig({{.ttft = Duration{20}}});
  const std::vector<Asked> asked = {OfTenant(0, 1, 40, 1), OfTenant(0, 1, 4, 1)};
  EXPECT_EQ(Decided(config, {.blocks = 20}, asked),
            "it1: B:P4 A:P12 | free=9 | fin=[B] | freeA=10\n"
            "it2: A:P16 | free=10\n"
            "it3: A:P12 | free=10 | fin=[A] | freeA=20\n");
  config.slack_chunking->relegates = false;
  EXPECT_EQ(Decided(config, {.blocks = 20}, asked),
            "it1: A:P16 | free=9\n"
            "it2: A:P16 | free=9\n"
            "it3: A:P8 B:P4 | free=9 | fin=[A,B] | freeA=20\n");
}

TEST(SlackChunkingTest, NeedsDeadlines) {
  SarathiConfig config = SmallConfig({{}});
  EXPECT_NO_THROW(config.Validate());
  config.order->kind = OrderConfig::Kind::kSjf;
  EXPECT_THROW(config.Validate(), InputError);
  config.order.reset();
  EXPECT_THROW(config.Validate(), InputError);
}

}  // namespace
}  // namespace twin::testing
