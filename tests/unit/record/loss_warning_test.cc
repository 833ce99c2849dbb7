#include "run/record/loss_warning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace twin {
namespace {

TEST(LossWarningTest, SaysHowManyRequestsWereRejectedAndWhy) {
  Summary summary;
  summary.Set("requests", std::int64_t{200});
  summary.Set("completed", std::int64_t{193});
  summary.Set("rejected", std::int64_t{7});
  summary.Set("rejected_too_long_for_model", std::int64_t{5});
  summary.Set("rejected_too_large_for_cache", std::int64_t{2});
  EXPECT_EQ(LossWarning(summary),
            "7 of 200 requests were rejected: 5 longer than the model's or the policy's length "
            "limit (system.model_shape.max_position and the policy's max_model_len or its "
            "counterpart set it), 2 too large for an empty KV cache");
  summary.Set("cut_outputs", std::int64_t{3});
  EXPECT_EQ(LossWarning(summary),
            "7 of 200 requests were rejected: 5 longer than the model's or the policy's length "
            "limit (system.model_shape.max_position and the policy's max_model_len or its "
            "counterpart set it), 2 too large for an empty KV cache; 3 of 193 outputs ended below "
            "their limit "
            "because the context was full");
}

TEST(LossWarningTest, NamesRequestsThatAFullSystemRefused) {
  Summary summary;
  summary.Set("requests", std::int64_t{200});
  summary.Set("rejected", std::int64_t{3});
  summary.Set("rejected_overloaded", std::int64_t{3});
  EXPECT_EQ(LossWarning(summary),
            "3 of 200 requests were rejected: 3 sent while the system was full (overloaded)");
}

// 45 of 4,000 clients waited long enough: the percentiles are theirs alone.
TEST(LossWarningTest, SaysWhoseLatenciesAreToldWhereManyClientsHaveNone) {
  Summary summary;
  summary.Set("requests", std::int64_t{4000});
  summary.Set("completed", std::int64_t{45});
  summary.Set("cancelled", std::int64_t{3955});
  summary.Set("unanswered_share", 3955 / 4000.0);
  EXPECT_EQ(LossWarning(summary),
            "3955 of 4000 requests got no answer (0 rejected, 3955 cancelled, 0 unfinished): "
            "latencies are those of the others");
  summary.Set("unanswered_share", 0.009);
  EXPECT_EQ(LossWarning(summary), "");
}

TEST(BurstWarningTest, NamesATailThatIsTheStartOfTheRun) {
  Summary summary;
  EXPECT_EQ(BurstWarning(summary), "");
  summary.Set("burst_share_of_ttft_tail", 0.5);
  EXPECT_EQ(BurstWarning(summary), "");
  summary.Set("burst_share_of_ttft_tail", 0.83);
  EXPECT_THAT(BurstWarning(summary), ::testing::StartsWith("83 % of the slowest 1 % of the TTFTs"));
}

TEST(FewRequestsNoteTest, SaysThatAP99OfFewRequestsIsTheirMaximum) {
  Summary summary;
  summary.Set("completed", std::int64_t{99});
  EXPECT_EQ(FewRequestsNote(summary),
            "p99: of 99 completed requests; a p99 of fewer than 100 is close to the maximum");
  summary.Set("completed", std::int64_t{100});
  EXPECT_EQ(FewRequestsNote(summary), "");
}

TEST(LossWarningTest, IsEmptyIfNothingWasLost) {
  Summary summary;
  EXPECT_EQ(LossWarning(summary), "");
  summary.Set("rejected", std::int64_t{0});
  EXPECT_EQ(LossWarning(summary), "");
}

}  // namespace
}  // namespace twin
