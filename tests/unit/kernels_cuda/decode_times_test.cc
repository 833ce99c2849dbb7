// How decodes are computed, chosen by times of a clock that the tests set.
#include "kernels/cuda/decode_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace twin::kernels::cuda {
namespace {

using testing::ElementsAre;

constexpr DecodeWay kCut{AttentionKernel::kFa2, 1};
constexpr DecodeWay kFine{AttentionKernel::kFa2, 4};
constexpr DecodeWay kWhole{AttentionKernel::kFa2, 0};
constexpr DecodeWay kCore{AttentionKernel::kCudaCore, 1};

DecodeTuning Tuning() {
  return {.shape = "shape", .decodes = {1, 8}, .lengths = {100, 1000}, .ways = {kCut, kWhole}};
}

TEST(DecodeTimesTest, WaysHaveNames) {
  for (const DecodeWay& way : {kCut, kFine, kWhole, kCore}) {
    EXPECT_EQ(ParseDecodeWay(NameOf(way)), way);
  }
  EXPECT_EQ(NameOf(kFine), "fa2 4 waves");
  EXPECT_EQ(NameOf(kWhole), "fa2 whole");
  EXPECT_EQ(ParseDecodeWay("fa3"), std::nullopt);
}

TEST(DecodeTimesTest, AShapesTextTellsAllThatTimesDependOn) {
  EXPECT_EQ(
      ShapeText(
          {.heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 16, .windows = {0, 4096}}),
      "bf16:32/8x128:16:0:4096:ragged");
}

// Of 16, the longest is at (31 / 1)^0.47 = 5.0 times the middle, and 3.5 to 4 times the mean.
TEST(DecodeTimesTest, LengthsAreUnequalAroundTheirMean) {
  const auto lengths = [](std::int64_t decodes, std::int64_t longest) {
    return LengthsOf({.shape = "", .decodes = decodes, .length = 1000, .way = kCut}, longest);
  };
  EXPECT_THAT(lengths(1, 5000), ElementsAre(1000));
  const std::vector<std::int64_t> many = lengths(16, 8000);
  EXPECT_NEAR(std::accumulate(many.begin(), many.end(), 0.0) / 16, 1000, 1);
  EXPECT_GT(*std::ranges::max_element(many), 3500);
  EXPECT_LT(*std::ranges::max_element(many), 4000);
  EXPECT_LT(*std::ranges::min_element(many), 200);
  EXPECT_FALSE(std::ranges::is_sorted(many));
  const std::vector<std::int64_t> limited = lengths(16, 3000);
  EXPECT_EQ(*std::ranges::max_element(limited), 3000);
}

// One sequence: cut is faster at 1000 tokens by more than it is slower at 100; of eight, never.
TEST(DecodeTimesTest, TheFastestOverAllLengthsIsChosenForEachNumberOfDecodes) {
  DecodeTimes times;
  std::vector<DecodeCase> asked;
  const auto clock = [&](const DecodeCase& each) {
    asked.push_back(each);
    if (each.decodes == 8) return each.way == kCut ? 30.0 : 20.0;
    if (each.length == 100) return each.way == kCut ? 12.0 : 10.0;
    return each.way == kCut ? 20.0 : 40.0;
  };
  EXPECT_TRUE(MeasureDecodes(Tuning(), clock, times));
  EXPECT_EQ(asked.size(), 8U);
  EXPECT_THAT(FastestDecodes(Tuning(), times),
              ElementsAre(MeasuredDecodes{1, kCut}, MeasuredDecodes{8, kWhole}));
}

// A length counts as much as any other, however long it takes: 1.1 + 1 against 1 + 1.5.
TEST(DecodeTimesTest, TimesCountRelativeToTheFastestAtTheirLength) {
  DecodeTuning tuning = Tuning();
  tuning.decodes = {1};
  const DecodeTimes times = {{{"shape", 1, 100, kCut}, 15},
                             {{"shape", 1, 100, kWhole}, 10},
                             {{"shape", 1, 1000, kCut}, 1000},
                             {{"shape", 1, 1000, kWhole}, 1100}};
  EXPECT_THAT(FastestDecodes(tuning, times), ElementsAre(MeasuredDecodes{1, kWhole}));
}

TEST(DecodeTimesTest, WhatIsKnownIsNotMeasuredAgain) {
  DecodeTimes times = {{{"shape", 8, 100, kCut}, 5}};
  int asked = 0;
  const auto clock = [&](const DecodeCase&) { return ++asked * 1.0; };
  EXPECT_TRUE(MeasureDecodes(Tuning(), clock, times));
  EXPECT_EQ(asked, 7);
  EXPECT_FALSE(MeasureDecodes(Tuning(), clock, times));
  EXPECT_EQ(asked, 7);
  // Times of another shape are of no use.
  DecodeTuning other = Tuning();
  other.shape = "other";
  EXPECT_TRUE(FastestDecodes(other, times).empty());
}

// 8 x 1000 tokens do not fit, and of 8 x 100 only one way: the others decide.
TEST(DecodeTimesTest, LengthsThatWereNotMeasuredInAllWaysDoNotCount) {
  DecodeTimes times;
  const auto clock = [&](const DecodeCase& each) -> std::optional<double> {
    if (each.decodes == 8 && (each.length == 1000 || each.way == kCut)) return std::nullopt;
    return each.way == kWhole ? 1 : 2;
  };
  EXPECT_TRUE(MeasureDecodes(Tuning(), clock, times));
  EXPECT_THAT(FastestDecodes(Tuning(), times), ElementsAre(MeasuredDecodes{1, kWhole}));
}

}  // namespace
}  // namespace twin::kernels::cuda
