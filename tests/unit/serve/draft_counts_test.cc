#include "apps/serve/service/draft_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace twin::run {
namespace {

using ::testing::ElementsAre;

WorkItem Item(std::uint32_t request, Phase phase, std::uint8_t drafts) {
  WorkItem item;
  item.request = RequestId{request};
  item.tokens = 1 + drafts;
  item.phase = phase;
  item.emits = true;
  item.drafts = drafts;
  return item;
}

// Two of three drafts are accepted; none of two, which needs no outcome; another request has none,
// and a prefill pads.
TEST(DraftCountsTest, CountsWhatDecodesVerified) {
  StepPlan plan;
  plan.work = {Item(1, Phase::kPrefill, 3), Item(2, Phase::kDecode, 3), Item(3, Phase::kDecode, 2),
               Item(4, Phase::kDecode, 0)};
  const std::vector<ItemOutcome> outcomes = {
      {.request = RequestId{1}, .emitted_tokens = 1, .new_drafts = 3},
      {.request = RequestId{2}, .emitted_tokens = 3, .accepted_drafts = 2},
      {.request = RequestId{4}, .emitted_tokens = 1, .finish = FinishReason::kLength}};
  const EndedStep step{.plan = plan,
                       .planned = kTimeZero,
                       .started = kTimeZero,
                       .finished = kTimeZero,
                       .outcomes = outcomes};
  DraftCounts counts;
  CountDrafts(step, counts);
  CountDrafts(step, counts);
  EXPECT_EQ(counts.drafts, 4);
  EXPECT_EQ(counts.tokens, 10);
  EXPECT_EQ(counts.accepted, 4);
  EXPECT_THAT(counts.accepted_at, ElementsAre(2, 2, 0));
}

}  // namespace
}  // namespace twin::run
