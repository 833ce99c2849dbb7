// twinserve capacity: what it prints, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

class CapacityCommandTest : public testing::ExperimentFolderTest {
 protected:
  [[nodiscard]] CommandOutcome Find(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "capacity",  "small.textproto", "--vary", "workload.arrivals.rate",
        "--between", "5,400",           "--jobs", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(CapacityCommandTest, PrintsTheValueWithItsUncertaintyAndProbes) {
  const CommandOutcome outcome = Find({"--until", "p99_ttft_ms<=300 && p99_tpot_ms<=50", "--format",
                                       "json", "--doublings", "0", "--replications", "10"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("may still depend on the length of the runs (200 requests): nothing "
                        "compares it with that of shorter runs"));
  const json found = json::parse(outcome.out);
  EXPECT_EQ(found["verdict"], "found");
  EXPECT_EQ(found["confidence"], 0.95);
  EXPECT_THAT(found["limiting"].get<std::string>(), HasSubstr("ms<="));
  const double value = found["value"].get<double>();
  EXPECT_GT(value, 5);
  EXPECT_LT(value, 400);
  EXPECT_LE(found["low"].get<double>(), value);
  EXPECT_GE(found["high"].get<double>(), value);
  EXPECT_GE(found["runs"].get<int>(), 40);
  for (const json& probe : found["probes"]) {
    for (const char* key : {"x", "n", "mean", "low", "high", "verdict"})
      EXPECT_TRUE(probe.contains(key)) << key;
  }
  EXPECT_EQ(found["probes"][0]["x"], 5);
  EXPECT_EQ(found["probes"][0]["verdict"], "accepted");
  EXPECT_EQ(found["probes"][1]["verdict"], "rejected");
}

TEST_F(CapacityCommandTest, ComparesPolicies) {
  Write("other.textproto",
        "base: \"small.textproto\"\nunset: \"policy\"\nname: \"other\"\npolicy { orca { max_bs: 2 "
        "max_model_len: 512 "
        "} }");
  const CommandOutcome outcome =
      Run({"capacity", "small.textproto", "other.textproto", "--vary", "workload.arrivals.rate",
           "--between", "1,400", "--until", "p90_ttft_ms<=500", "--doublings", "0",
           "--replications", "5"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("p90_ttft_ms<=500"));
  EXPECT_THAT(outcome.out, HasSubstr("other.textproto over small.textproto: 0."));
}

TEST_F(CapacityCommandTest, FindsTheSmallestValueAndWritesTheAnswer) {
  const CommandOutcome outcome =
      Run({"capacity", "small.textproto", "--vary", "system.replicas", "--between", "1,8",
           "--smallest", "--until", "p90_ttft_ms<=500", "--set", "workload.arrivals.rate=600",
           "--doublings", "0", "--replications", "10", "--out", "answer"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("wrote answer\n"));
  const json found = json::parse(ReadText(scratch_.File("answer/capacity.json")));
  EXPECT_EQ(found["verdict"], "found");
  const double value = found["value"].get<double>();
  for (const json& probe : found["probes"]) {
    const bool holds = probe["x"].get<double>() >= value;
    EXPECT_NE(probe["verdict"], holds ? "rejected" : "accepted") << probe;
  }
}

TEST_F(CapacityCommandTest, RefusesMistakesWithOneLine) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--until", "p99_tft_ms<=3"},
        {"--until", "p99_ttft_ms"},
        {"--until", "p99_ttft_ms<=3", "--between", "5"},
        {"--until", "p99_ttft_ms<=3", "--between", "9,5"},
        {"--until", "p99_ttft_ms<=3", "--vary", "workload.rate"}}) {
    std::vector<std::string> arguments = {"capacity", "small.textproto"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto has = [&](const char* name) {
      return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
    };
    if (!has("--vary")) arguments.insert(arguments.end(), {"--vary", "workload.arrivals.rate"});
    if (!has("--between")) arguments.insert(arguments.end(), {"--between", "5,400"});
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  }
}

}  // namespace
}  // namespace twin::apps
