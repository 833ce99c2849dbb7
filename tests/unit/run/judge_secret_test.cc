// The judge's secret: what follows from it, and how it is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/hash.h"
#include "core/input_error.h"
#include "run/judge/secret.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

TEST(JudgeSecretTest, DrawsDifferAndAreReadBack) {
  std::set<std::string> texts;
  for (int i = 0; i < 100; ++i) {
    const JudgeSecret secret = JudgeSecret::Draw();
    EXPECT_FALSE(secret.is_number());
    EXPECT_EQ(secret.text().size(), 32u);
    EXPECT_EQ(JudgeSecret::Parse(secret.text(), "seed"), secret);
    texts.insert(secret.text());
  }
  EXPECT_EQ(texts.size(), 100u);
}

TEST(JudgeSecretTest, ANumberKeepsItsDraws) {
  const JudgeSecret secret = JudgeSecret::Parse("7", "seed");
  EXPECT_EQ(secret.text(), "7");
  EXPECT_EQ(secret.OfCells(3), MixWords(7, 3));
  EXPECT_EQ(secret.OfHostileWorlds(), 7u);
  // The seeds of the first cell's second round, as they were derived when seeds had 31 bits.
  const std::uint64_t seed = MixWords(MixWords(MixWords(7, 3), 1), 2) & 0x7FFFFFFF;
  const RunSeeds seeds = secret.OfRun(3, 0, 1);
  EXPECT_EQ(seeds.world, seed);
  EXPECT_EQ(seeds.workload, WorkloadSeeds(seed));
  EXPECT_EQ(JudgeSecret::Parse("9223372036854775807", "seed").text(), "9223372036854775807");
}

TEST(JudgeSecretTest, SeedsOfADrawnSecretHave64BitsAndTellNothingOfEachOther) {
  const JudgeSecret secret = JudgeSecret::Parse("00000000000000010000000000000000", "seed");
  std::set<std::uint64_t> all;
  std::uint64_t high_bits = 0;
  for (std::uint64_t submission = 1; submission <= 3; ++submission) {
    for (std::uint64_t cell = 0; cell < 10; ++cell) {
      const RunSeeds seeds = secret.OfRun(submission, cell, 0);
      for (const std::uint64_t seed :
           {seeds.world, seeds.workload.arrivals, seeds.workload.content,
            seeds.workload.predictions, seeds.keys.low, seeds.keys.high}) {
        all.insert(seed);
        high_bits |= seed;
      }
    }
  }
  EXPECT_EQ(all.size(), 180u);
  EXPECT_EQ(high_bits, ~std::uint64_t{0});
}

TEST(JudgeSecretTest, EachOfItsBitsMatters) {
  const auto content = [](const char* text) {
    return JudgeSecret::Parse(text, "seed").OfRun(1, 0, 0).workload.content;
  };
  EXPECT_NE(content("80000000000000000000000000000000"),
            content("80000000000000000000000000000001"));
  EXPECT_NE(content("80000000000000000000000000000000"),
            content("c0000000000000000000000000000000"));
}

TEST(JudgeSecretTest, RefusesWhatIsNoSecret) {
  for (const char* text :
       {"", "-1", "7x", "9223372036854775808", "00000000000000000000000000000007",
        "g0000000000000000000000000000000", "1 "}) {
    try {
      JudgeSecret::Parse(text, "judge --seed");
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("allowed: 0 to 9223372036854775807, or the 32 hex"));
    }
  }
}

}  // namespace
}  // namespace twin::run
