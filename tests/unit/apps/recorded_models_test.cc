// What recordings of a model leave over, by hand.
#include "apps/predict/recorded_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace twin::run {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// `count` decode steps of a recording.
void Add(std::size_t recording, std::int64_t rows, double log_ratio, int count,
         std::vector<RecordedStep>& steps) {
  RecordedStep step{.recording = recording, .load = {}, .log_ratio = log_ratio};
  step.load.rows = rows;
  step.load.decodes = {.requests = static_cast<double>(rows),
                       .context_tokens = 100.0 * static_cast<double>(rows)};
  steps.insert(steps.end(), static_cast<std::size_t>(count), step);
}

double RatioOf(double log_ratio, int count) {
  std::vector<RecordedStep> steps;
  Add(0, 8, log_ratio, count, steps);
  sim::RecordedModel model;
  SetRecordedSteps(steps, model);
  return model.decode_ratios.log_ratios.at(0);
}

constexpr double kRounding = 1e-5;

// 5 steps without any error beside 15 or 195: three quarters, or 39 fortieths.
TEST(RecordedModelsTest, FewStepsCountLess) {
  EXPECT_NEAR(RatioOf(0.04, 15), 0.03, kRounding);
  EXPECT_NEAR(RatioOf(0.04, 195), 0.039, kRounding);
}

// 95 steps beside 5. Up to 0.75 % nothing, from 1.5 % on everything, between them in proportion.
TEST(RecordedModelsTest, WhatRecordingsDifferByThemselvesIsNoRatio) {
  constexpr double kShare = 0.95;
  EXPECT_EQ(RatioOf(0.0075 / kShare, 95), 0);
  EXPECT_EQ(RatioOf(-0.005, 95), 0);
  EXPECT_NEAR(RatioOf(0.011 / kShare, 95), 0.007, kRounding);
  EXPECT_NEAR(RatioOf(-0.011 / kShare, 95), -0.007, kRounding);
  EXPECT_NEAR(RatioOf(0.02 / kShare, 95), 0.02, kRounding);
}

// The median of a recording, and the mean of recordings: one of 4,000 steps counts as one of 400.
TEST(RecordedModelsTest, RecordingsCountByTheirStepsUpToALimit) {
  std::vector<RecordedStep> steps;
  Add(0, 8, 0.04, 3999, steps);
  Add(0, 8, 9.0, 1, steps);  // an outlier
  Add(1, 8, 0.02, 395, steps);
  sim::RecordedModel model;
  SetRecordedSteps(steps, model);
  EXPECT_THAT(model.decode_ratios.log_ratios,
              ElementsAre(DoubleNear((400 * 0.04 + 395 * 0.02) / 800, kRounding)));
}

// Up to 64 rows each number stands alone; 256 and 262 lie in one quarter of an octave, whose mean
// is geometric, and 512 in another.
TEST(RecordedModelsTest, ManyRowsShareQuartersOfAnOctave) {
  std::vector<RecordedStep> steps;
  for (const std::int64_t rows : {24, 25, 256, 262, 512}) Add(0, rows, 0.03, 100, steps);
  sim::RecordedModel model;
  SetRecordedSteps(steps, model);
  EXPECT_THAT(model.decode_ratios.rows,
              ElementsAre(24, 25, DoubleNear(std::sqrt(256.0 * 262), 0.01), 512));
}

TEST(RecordedModelsTest, StepsWithPromptsHaveRatiosOfTheirOwn) {
  std::vector<RecordedStep> steps;
  Add(0, 8, 0.02, 395, steps);
  Add(0, 40, -0.02, 395, steps);
  for (std::size_t i = 395; i < steps.size(); ++i) {
    steps[i].load.chunks = {.chunks = 1, .tokens = 32, .context_tokens = 500};
    steps[i].load.decodes.requests = 8;
  }
  sim::RecordedModel model;
  SetRecordedSteps(steps, model);
  EXPECT_THAT(model.decode_ratios.rows, ElementsAre(8));
  EXPECT_THAT(model.prompt_ratios.rows, ElementsAre(40));
  EXPECT_LT(model.prompt_ratios.log_ratios.at(0), 0);
}

// The largest step itself is not beyond what was recorded.
TEST(RecordedModelsTest, TheRangeHoldsEveryStep) {
  std::vector<RecordedStep> steps;
  Add(0, 40, 0, 1, steps);
  steps[0].load.decodes.requests = 33;  // padded to 40
  sim::RecordedModel model;
  SetRecordedSteps(steps, model);
  EXPECT_EQ(model.rows_max, 40);
  EXPECT_EQ(model.decodes_max, 33);
  EXPECT_EQ(model.context_tokens_max, 4000);
  EXPECT_EQ(model.OpenShare(40, 33, 4000), 0);
  EXPECT_GT(model.OpenShare(41, 33, 4000), 0);
}

// Root mean squares of 1 and 3 % and of 4 %; at least 0.75 %.
TEST(RecordedModelsTest, RecordingsAreAsFarOffAsTheWorseGroup) {
  LastingErrors errors;
  EXPECT_FALSE(errors.any());
  errors.Add(false, 0.001);
  EXPECT_EQ(errors.Sd(), 0.0075);
  LastingErrors both;
  both.Add(false, 0.01);
  both.Add(false, -0.03);
  EXPECT_NEAR(both.Sd(), std::sqrt((0.01 * 0.01 + 0.03 * 0.03) / 2), 1e-12);
  both.Add(true, 0.04);
  EXPECT_NEAR(both.Sd(), 0.04, 1e-12);
}

}  // namespace
}  // namespace twin::run
