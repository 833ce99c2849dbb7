#include "record/loss_warning.h"

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
            "limit, 2 too large for an empty KV cache");
  summary.Set("cut_outputs", std::int64_t{3});
  EXPECT_EQ(LossWarning(summary),
            "7 of 200 requests were rejected: 5 longer than the model's or the policy's length "
            "limit, 2 too large for an empty KV cache; 3 of 193 outputs ended below their limit "
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

TEST(LossWarningTest, IsEmptyIfNothingWasLost) {
  Summary summary;
  EXPECT_EQ(LossWarning(summary), "");
  summary.Set("rejected", std::int64_t{0});
  EXPECT_EQ(LossWarning(summary), "");
}

}  // namespace
}  // namespace twin
