// Steps that a cost model was not measured on, or that the memory was not planned for.
#include "run/cost_range_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "run/simulation.h"
#include "tests/unit/run/reports.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Prompts of 7,000 tokens that come at once; the first is computed alone.
std::vector<std::string> WarningsOf(int requests, const std::string& policy) {
  const std::string text = R"(
workload { arrivals { kind: all_at_once }
  shape { prompt { kind: fixed value: 7000 } output { kind: fixed value: 2 } } requests: )" +
                           std::to_string(requests) + R"( }
system { model: "llama-3-8b" hardware: "h100-sxm" }
cost { profile {} }
policy { )" + policy + " }";
  const ScratchDirectory folder("cost_range_watch");
  Reports control;
  (void)RunSimulation(ParseExperiment(text, "e", "/"), folder.File("run"), {}, control);
  return control.warnings;
}

TEST(CostRangeWatchTest, ChunksStayWithinWhatWasMeasuredAndPlanned) {
  EXPECT_THAT(WarningsOf(3, "sarathi { chunk_size: 512 max_num_seqs: 3 max_model_len: 8192 }"),
              IsEmpty());
}

TEST(CostRangeWatchTest, StepsBeyondThePlannedMemoryAreWarnedOf) {
  EXPECT_THAT(WarningsOf(3, "static { max_batch_size: 3 max_model_len: 8192 }"),
              ElementsAre(HasSubstr("1 of 4 steps had more tokens than "
                                    "system.memory.max_step_tokens, up to 14000")));
}

TEST(CostRangeWatchTest, StepsBeyondTheMeasuredOnesAreWarnedOf) {
  EXPECT_THAT(WarningsOf(40, "static { max_batch_size: 40 max_model_len: 8192 }"),
              ElementsAre(HasSubstr("1 of 4 steps were larger than any step that cost.profile was "
                                    "measured on: their times are extrapolated"),
                          HasSubstr("up to 273000")));
}

}  // namespace
}  // namespace twin::run
