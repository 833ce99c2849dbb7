// Study files: their fields, bare values, and errors that point to the user's text.
#include "config/study_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/quoted_values.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(QuotedValuesTest, NumbersAndWordsGetQuotes) {
  EXPECT_EQ(QuoteValues("values: [1, -2.5, on, \"x\"] a: 3", "values").text,
            "values: [\"1\", \"-2.5\", \"on\", \"x\"] a: 3");
  EXPECT_EQ(QuoteValues("axis { values: 1e-3 }\nvalues : x", "values").text,
            "axis { values: \"1e-3\" }\nvalues : \"x\"");
  EXPECT_EQ(QuoteValues("values # [1]\n: [ 1 ]", "values").text, "values # [1]\n: [ \"1\" ]");
}

TEST(QuotedValuesTest, AnythingElseStays) {
  for (const char* text : {"", "value: 1", "a: \"values: 1\"", "values: [\"a, 1\"]", "values {"})
    EXPECT_EQ(QuoteValues(text, "values").text, text);
}

TEST(StudyConfigTest, EveryFieldIsRead) {
  const StudyConfig study = ParseStudy(R"(
    schema_version: 1
    base: ["a.textproto", "b.textproto"]
    axis { path: "x.y" from: 1 to: 8 steps: 4 log: true coupled { path: "z" values: [1, 2, 3, 4] } }
    axis { path: "f" files: ["one.csv", "two.csv"] }
    replications: 5
    seed: 11
    sampling { kind: latin_hypercube points: 7 seed: 2 }
    warmup { kind: mser5 }
    set: "a.b=1"
    runs: [0, 3])",
                                       "s", "folder");
  EXPECT_THAT(study.bases, ElementsAre("a.textproto", "b.textproto"));
  ASSERT_EQ(study.axes.size(), 2u);
  EXPECT_EQ(study.axes[0].to, 8);
  EXPECT_TRUE(study.axes[0].log);
  EXPECT_THAT(study.axes[0].coupled[0].values, ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(study.axes[1].files, ElementsAre("one.csv", "two.csv"));
  EXPECT_EQ(study.replications, 5u);
  EXPECT_EQ(study.seed, 11u);
  EXPECT_EQ(study.sampling.kind, SamplingConfig::Kind::kLatinHypercube);
  EXPECT_EQ(study.warmup, WarmupRule::kMser5);
  EXPECT_THAT(study.runs, ElementsAre(0u, 3u));
  EXPECT_THAT(WriteStudy(study), HasSubstr("kind: latin_hypercube"));
}

TEST(StudyConfigTest, ErrorsNameLineColumnAndWhatIsAllowed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      (void)ParseStudy(text, "s", "");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("base: \"a\"\nreplicatons: 3"),
              HasSubstr("s:2:1: no field \"replicatons\" in Study; nearest \"replications\""));
  EXPECT_THAT(error_of("base: \"a\" axis { values: [1, 2] path: 3 }"), HasSubstr("s:1:39: "));
  EXPECT_THAT(error_of("base: \"a\" replications: 0"), HasSubstr("must be at least 1"));
  EXPECT_THAT(error_of("base: \"a\" sampling { kind: sobol points: 3 }"),
              HasSubstr("axis: is missing"));
  EXPECT_THAT(error_of("base: \"a\" sampling { points: 3 }"), HasSubstr("latin_hypercube"));
}

}  // namespace
}  // namespace twin
