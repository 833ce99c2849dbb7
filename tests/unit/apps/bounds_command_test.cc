// twinserve bounds: what it prints, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

class BoundsCommandTest : public testing::ExperimentFolderTest {};

TEST_F(BoundsCommandTest, PrintsEachMetricWithItsBoundAndTheirRatio) {
  const CommandOutcome outcome = Run({"bounds", "small.textproto", "--format", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json found = json::parse(outcome.out);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["experiment"], "small");
  for (const char* metric : {"mean_ttft_ms", "mean_e2el_ms", "makespan_s"}) {
    const double value = found[0][metric]["value"].get<double>();
    const double bound = found[0][metric]["bound"].get<double>();
    EXPECT_GT(bound, 0) << metric;
    EXPECT_GE(value, bound * (1 - 1e-6)) << metric;
    EXPECT_DOUBLE_EQ(found[0][metric]["ratio"].get<double>(), value / bound) << metric;
  }
}

TEST_F(BoundsCommandTest, PrintsARowPerExperiment) {
  const CommandOutcome outcome = Run({"bounds", "small.textproto", "small.textproto"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mean_e2el_ms  bound  ratio"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
}

TEST_F(BoundsCommandTest, RefusesWhatHasNoBounds) {
  const CommandOutcome outcome = Run({"bounds", "small.textproto", "--set", "system.replicas=2"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("system.replicas"));
}

}  // namespace
}  // namespace twin::apps
