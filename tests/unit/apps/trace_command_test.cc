#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::apps {
namespace {

std::string RunLine(const std::string& arguments) {
  CLI::App app;
  CommandContext context;
  AddTraceCommand(CommandParser(app), context);
  ::testing::internal::CaptureStdout();
  try {
    app.parse(arguments);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

std::size_t FilesIn(const ScratchDirectory& scratch) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(scratch.path()), {}));
}

// vidur.csv: prompts 100, 200, 300; arrivals 0, 0.5, 1 s: gaps 0.5 s, rate 3 in one second.
TEST(TraceInfoTest, PrintsJson) {
  const auto json =
      nlohmann::json::parse(RunLine("trace info " + SamplePath("vidur.csv") + " --format json"));
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["rate_rps"], 3.0);
  EXPECT_EQ(json["interarrival_cv"], 0.0);
  EXPECT_EQ(json["prompt_tokens"]["p50"], 200.0);
  EXPECT_EQ(json["prompt_tokens"]["p90"], 280.0);
  EXPECT_TRUE(json["idc_1s"].is_null());
}

TEST(TraceInfoTest, PrintsATable) {
  const std::string table = RunLine("trace info " + SamplePath("mooncake.jsonl"));
  EXPECT_THAT(table, ::testing::HasSubstr("rate_rps"));
  EXPECT_THAT(table, ::testing::HasSubstr("ideal_hit_token_share"));
}

TEST(TraceInfoTest, FiltersAndRefuses) {
  const std::string file = SamplePath("apexplus.csv");
  EXPECT_THROW(RunLine("trace info " + file), InputError);
  EXPECT_THROW(RunLine("trace info " + file + " --filter tokenizer"), InputError);
  EXPECT_NO_THROW(RunLine("trace info " + file + " --filter tokenizer=mistral"));
  EXPECT_THROW(RunLine("trace info /no/such/file"), InputError);
  EXPECT_THROW(RunLine("trace info"), CLI::ParseError);
}

class ConvertTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ConvertTest, KeepsEveryRequestPlainAndCompressed) {
  const ScratchDirectory scratch("convert");
  const std::string format = FormatToName(GetParam());
  std::string flags = format.empty() ? "" : " --from " + format;
  TraceReadOptions options;
  if (GetParam() == "apexplus.csv") {
    flags += " --filter workload=creation";
    options.filters = {{"workload", "creation"}};
  }
  const auto original = OpenTrace(SamplePath(GetParam()), format, options);
  const bool has_arrivals = original->has_arrivals();
  const std::vector<TracedRequest> expected = ReadAll(*original);
  for (const std::string name : {"out.csv", "out.csv.gz"}) {
    const std::string out = scratch.File(name);
    RunLine("trace convert " + SamplePath(GetParam()) + " " + out + flags);
    const auto reader = OpenTrace(out);
    EXPECT_EQ(reader->has_arrivals(), has_arrivals);
    EXPECT_EQ(ReadAll(*reader), expected);
    EXPECT_EQ(ReadText(out).starts_with("\x1f\x8b"), name.ends_with(".gz"));
  }
  EXPECT_EQ(FilesIn(scratch), 2u);
}

INSTANTIATE_TEST_SUITE_P(Samples, ConvertTest, ::testing::ValuesIn(SampleFiles()), SampleTestName);

// 4,032 of 6,138 rows of a published log once vanished without a word.
TEST(TraceConvertTest, SaysWhichRowsItSkipped) {
  const ScratchDirectory scratch("convert_skipped");
  std::ofstream(scratch.File("in.csv"))
      << "send_us,in_tokens,out_tokens,status\n0,5,6,200\n1,,,408\n2,5,0,200\n";
  const std::string call =
      "trace convert " + scratch.File("in.csv") + " " + scratch.File("out.csv");
  ::testing::internal::CaptureStderr();
  RunLine(call);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            scratch.File("in.csv") + ": 2 of 3 rows skipped: 1 failed, 1 without output\n");
  std::ofstream(scratch.File("in.csv")) << "send_us,in_tokens,out_tokens\n0,5,6\n";
  ::testing::internal::CaptureStderr();
  RunLine(call);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TraceConvertTest, WarnsOfALastLineWithoutEndOnlyWhereItMayBeCut) {
  const ScratchDirectory scratch("convert_cut");
  const auto warning_of = [&](const std::string& text) {
    std::ofstream(scratch.File("in")) << text;
    ::testing::internal::CaptureStderr();
    RunLine("trace info " + scratch.File("in"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning_of(R"({"input_lens": [5], "output_lens": [7]})"), "");
  EXPECT_THAT(warning_of("send_us,in_tokens,out_tokens\n0,5,6"), ::testing::HasSubstr("cut"));
}

TEST(TraceConvertTest, LeavesNothingBehindWhenTheInputIsBad) {
  const ScratchDirectory scratch("convert_bad");
  std::ofstream(scratch.File("in.csv")) << "prompt_tokens,output_tokens\n1,2\n1,-2\n";
  EXPECT_THROW(RunLine("trace convert " + scratch.File("in.csv") + " " + scratch.File("out.csv")),
               InputError);
  EXPECT_EQ(FilesIn(scratch), 1u);
  EXPECT_THROW(RunLine("trace convert " + scratch.File("in.csv") + " " + scratch.File("in.csv")),
               InputError);
  EXPECT_THROW(RunLine("trace convert " + SamplePath("twin.csv") + " /no/such/directory/out.csv"),
               InputError);
}

TEST(TraceGenerateTest, DrawsTheSameForTheSameSeed) {
  const ScratchDirectory scratch("generate");
  const auto generate = [&](const std::string& name, int seed) {
    RunLine("trace generate " + scratch.File(name) +
            " --requests 500 --rate 5 --preset conversation" +
            " --shared-prompts 3 --shared-tokens 64 --seed " + std::to_string(seed));
    return ReadText(scratch.File(name));
  };
  const std::string first = generate("a.csv", 1);
  EXPECT_EQ(first, generate("b.csv", 1));
  EXPECT_NE(first, generate("c.csv", 2));
  EXPECT_EQ(ReadAll(*OpenTrace(scratch.File("a.csv"))).size(), 500u);
}

TEST(TraceGenerateTest, RefusesBadFlagsNamingThem) {
  const ScratchDirectory scratch("generate_bad");
  const std::string start = "trace generate " + scratch.File("a.csv") + " ";
  EXPECT_THROW(RunLine(start + "--prompt fixed:5 --output fixed:5"), InputError);  // no end
  EXPECT_THROW(RunLine(start + "--requests 5 --prompt fixed:0 --output fixed:5"), InputError);
  EXPECT_THROW(RunLine(start + "--requests 5 --prompt fixed:nan --output fixed:5"), InputError);
  EXPECT_THROW(RunLine(start + "--requests 5 --prompt bell:1 --output fixed:5"), InputError);
  EXPECT_THROW(RunLine(start + "--requests 5 --prompt fixed:5x --output fixed:5"), InputError);
  EXPECT_THROW(RunLine(start + "--requests 5 --arrivals sometimes"), CLI::ParseError);
  EXPECT_EQ(FilesIn(scratch), 0u);
}

}  // namespace
}  // namespace twin::apps
