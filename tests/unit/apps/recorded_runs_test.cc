// The recorded runs that an answer compares itself with. Expected values are means over rows of
// checks/fidelity/expected/errors.csv.
#include "apps/run/recorded_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/models/model_names.h"

namespace twin::apps {
namespace {

SystemConfig System(const std::string& model, const std::string& device, int tensor = 1) {
  SystemConfig system;
  system.model_spec = ModelPreset(model);
  system.hardware_spec.name = device;
  system.parallelism.tensor = tensor;
  return system;
}

std::string NearestModel(const SystemConfig& system) { return NearestRecordedRuns(system)->model; }

TEST(RecordedRunsTest, ErrorsAreMeansOfTheRunsThatNothingWasFittedTo) {
  const auto nearest = NearestRecordedRuns(System("qwen3-14b", "h100-sxm"));
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->runs, 9);
  EXPECT_NEAR(nearest->ttft_error_pct, 11.24 / 9, 1e-9);
  EXPECT_NEAR(nearest->tpot_error_pct, 4.10 / 10, 1e-9);
  EXPECT_NEAR(nearest->e2e_error_pct, 4.20 / 9, 1e-9);
}

TEST(RecordedRunsTest, FittedRunsDoNotCount) {
  const auto nearest = NearestRecordedRuns(System("llama-3-70b", "h100-sxm", 4));
  ASSERT_TRUE(nearest);
  // The runs of llama-2-70b on 4 ranks, as large a rank, were fitted to.
  EXPECT_EQ(nearest->model, "codellama-34b");
  EXPECT_EQ(nearest->server, "vllm-0.15.1");
}

TEST(RecordedRunsTest, RunsOfAnotherServerDoNotCount) {
  SystemConfig system = System("qwen3-14b", "h100-sxm");
  system.server = "vllm-0.11.0";
  EXPECT_TRUE(NearestRecordedRuns(system));
  system.server = "sglang-0.5.23";
  EXPECT_FALSE(NearestRecordedRuns(system));
}

TEST(RecordedRunsTest, TheNearestHasTheSameDeviceThenTheSameKindOfModelThenASimilarSize) {
  EXPECT_EQ(NearestModel(System("llama-3.1-8b", "h100-sxm")), "llama-2-7b");
  EXPECT_EQ(NearestModel(System("mixtral-8x22b", "h100-sxm", 8)), "mixtral-8x7b");
  // No recording has an A100: any device counts. 70 billion parameters on 4 ranks are 17.6 a rank,
  // as are the 17.0 of codellama-34b on 2.
  const auto nearest = NearestRecordedRuns(System("llama-3-70b", "a100-80gb-sxm", 4));
  EXPECT_EQ(nearest->device, "h100-sxm");
}

TEST(RecordedRunsTest, NoRecordingIsLikeASystemOfSeveralGroups) {
  SystemConfig system = System("qwen3-14b", "h100-sxm");
  system.groups.emplace_back();
  EXPECT_FALSE(NearestRecordedRuns(system));
}

}  // namespace
}  // namespace twin::apps
