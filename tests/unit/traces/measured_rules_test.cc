// Rules for answers that can have happened, the same in every format of a measured run.
#include "traces/measured_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/metric_snapshots.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// An answer as its client measured it, in ms.
struct Answer {
  int tokens;
  double ttft;
  std::vector<double> gaps;
  double e2e;

  [[nodiscard]] double pace() const {
    return std::accumulate(gaps.begin(), gaps.end(), 0.0) / std::max(tokens - 1, 1);
  }
};

// 5 tokens after 20, 30, 40, 50 and 60 ms: the time between tokens is 10 ms.
const Answer kGood{5, 20, {10, 10, 10, 10}, 60};

using Answers = std::vector<Answer>;

std::string Json(const Answers& answers, const char* separator,
                 const std::function<std::string(const Answer&)>& one) {
  std::vector<std::string> parts;
  for (const Answer& answer : answers) parts.push_back(one(answer));
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string InSeconds(const std::vector<double>& ms) {
  std::vector<double> seconds;
  for (const double time : ms) seconds.push_back(time / 1e3);
  return fmt::format("[{}]", fmt::join(seconds, ","));
}

std::string Bench(const Answers& answers, const char* server) {
  const auto list = [&](const std::function<std::string(const Answer&)>& one) {
    return Json(answers, ",", one);
  };
  return fmt::format(
      R"({{{}"input_lens":[{}],"output_lens":[{}],"ttfts":[{}],"itls":[{}],"latencies":[{}]}})",
      server, list([](const Answer&) { return "7"; }),
      list([](const Answer& a) { return std::to_string(a.tokens); }),
      list([](const Answer& a) { return fmt::format("{}", a.ttft / 1e3); }),
      list([](const Answer& a) { return InSeconds(a.gaps); }),
      list([](const Answer& a) { return fmt::format("{}", a.e2e / 1e3); }));
}

std::string AiPerf(const Answers& answers) {
  return Json(answers, "\n", [](const Answer& a) {
    return fmt::format(R"({{"metadata":{{"request_start_ns":1000}},"metrics":{{)"
                       R"("input_sequence_length":{{"value":7,"unit":"tokens"}},)"
                       R"("output_sequence_length":{{"value":{},"unit":"tokens"}},)"
                       R"("time_to_first_token":{{"value":{},"unit":"ms"}},)"
                       R"("request_latency":{{"value":{},"unit":"ms"}},)"
                       R"("inter_chunk_latency":{{"value":[{}],"unit":"ms"}}}}}})",
                       a.tokens, a.ttft, a.e2e, fmt::join(a.gaps, ","));
  });
}

std::string InferencePerf(const Answers& answers) {
  return fmt::format("[{}]", Json(answers, ",", [](const Answer& a) {
                       std::vector<double> times{1e3 + a.ttft};
                       for (const double gap : a.gaps) times.push_back(times.back() + gap);
                       return fmt::format(
                           R"({{"start_time":1,"end_time":{},"info":{{"input_tokens":7,)"
                           R"("output_tokens":{},"output_token_times":{}}}}})",
                           1 + a.e2e / 1e3, a.tokens, InSeconds(times));
                     }));
}

std::string Guidellm(const Answers& answers) {
  return R"({"benchmarks":[{"requests":{"successful":[)" +
         Json(answers, ",",
              [](const Answer& a) {
                return fmt::format(R"({{"request_start_time":1,"prompt_tokens":7,)"
                                   R"("output_tokens":{},"time_to_first_token_ms":{},)"
                                   R"("request_latency":{},"inter_token_latency_ms":{}}})",
                                   a.tokens, a.ttft, a.e2e / 1e3, a.pace());
              }) +
         "]}}]}";
}

std::string LogOfLengths(const Answers& answers) {
  return "send_s,in_tokens,out_tokens,ttft_us,e2e_ms,tpot_ms\n" +
         Json(answers, "\n", [](const Answer& a) {
           return fmt::format("1,7,{},{},{},{}", a.tokens, 1e3 * a.ttft, a.e2e, a.pace());
         });
}

std::string LogOfMoments(const Answers& answers) {
  return "send_us,in_tokens,out_tokens,first_us,last_us,e2e_ms\n" +
         Json(answers, "\n", [](const Answer& a) {
           const double gaps = std::accumulate(a.gaps.begin(), a.gaps.end(), 0.0);
           return fmt::format("1000000,7,{},{},{},{}", a.tokens, 1e6 + 1e3 * a.ttft,
                              1e6 + 1e3 * (a.ttft + gaps), a.e2e);
         });
}

std::string LogOfJson(const Answers& answers) {
  return Json(answers, "\n", [](const Answer& a) {
    return fmt::format(R"({{"send_s":1,"prompt_tokens":7,"output_tokens":{},"ttft_ms":{},)"
                       R"("e2e_s":{},"tpot_us":{}}})",
                       a.tokens, a.ttft, a.e2e / 1e3, 1e3 * a.pace());
  });
}

struct Format {
  const char* name;
  std::function<std::string(const Answers&)> write;
  bool has_gaps = false;     // between its tokens
  bool has_moments = false;  // in place of times after the sending
};

const Format kFormats[] = {
    {"VllmBench", [](const Answers& a) { return Bench(a, ""); }, true},
    {"SglangBench",
     [](const Answers& a) { return Bench(a, R"("server_info":{"version":"0.5.5"},)"); }, true},
    {"AiPerf", AiPerf, true},
    {"InferencePerf", InferencePerf, true, true},
    {"Guidellm", Guidellm},
    {"LogOfLengths", LogOfLengths},
    {"LogOfMoments", LogOfMoments, false, true},
    {"LogOfJson", LogOfJson}};

BenchmarkRun ReadText(const std::string& text) {
  const ScratchDirectory scratch("measured_rules");
  const std::string path = scratch.File("run");
  std::ofstream(path, std::ios::binary) << text;
  return ReadBenchmarkRuns(path).front();
}

std::string ErrorOf(const std::string& text) {
  try {
    ReadText(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

class MeasuredRulesTest : public ::testing::TestWithParam<Format> {
 protected:
  static BenchmarkRequest Read(const Answer& answer) {
    return ReadText(GetParam().write({kGood, answer})).requests.back();
  }
  // The second request is the bad one.
  static std::string Error(const Answer& answer) {
    return ErrorOf(GetParam().write({kGood, answer}));
  }
};

TEST_P(MeasuredRulesTest, TakesAnAnswerThatCanHaveHappened) {
  const BenchmarkRequest request = Read(kGood);
  EXPECT_NEAR(Milliseconds(request.ttft.value()), 20, 1e-3);
  EXPECT_NEAR(Milliseconds(request.e2e.value()), 60, 1e-3);
  EXPECT_NEAR(TpotMs(request).value(), 10, 1e-3);
}

// Clients that count two tokens in a piece have fewer gaps than tokens.
TEST_P(MeasuredRulesTest, TakesPiecesOfSeveralTokens) {
  EXPECT_NEAR(TpotMs(Read({5, 20, {20, 20}, 60})).value(), 10, 1e-3);
}

TEST_P(MeasuredRulesTest, RefusesAFirstTokenAfterTheLast) {
  EXPECT_THAT(
      Error({5, 80, {-20}, 60}),
      ::testing::AnyOf(HasSubstr("request 2: "), HasSubstr("allowed: a number from 0"),
                       HasSubstr("allowed: a time from 0"), HasSubstr("numbers from 0 on")));
  EXPECT_THAT(Error({1, 80, {}, 60}), HasSubstr("request 2: "));
}

TEST_P(MeasuredRulesTest, RefusesAFirstTokenBeforeTheSending) {
  EXPECT_THAT(Error({5, -5, {10, 10, 10, 10}, 35}),
              GetParam().has_moments
                  ? HasSubstr("request 2: its first token comes 5 ms before it was sent")
                  : HasSubstr("from 0"));
}

class MeasuredGapsTest : public MeasuredRulesTest {};

TEST_P(MeasuredGapsTest, AsManyAsTokensAreRefused) {
  EXPECT_THAT(Error({5, 20, {10, 10, 10, 10, 10}, 70}),
              HasSubstr("request 2: has 5 gaps between 5 tokens; allowed: at most 4"));
}

TEST_P(MeasuredRulesTest, RefusesASumThatIsNotTheLatency) {
  EXPECT_THAT(Error({5, 20, {10, 10, 10, 10}, 200}),
              AllOf(HasSubstr("request 2: "), HasSubstr("times that agree within 2 % and 10 ms")));
}

// A closing message follows the last token, and clocks are read one after the other.
TEST_P(MeasuredRulesTest, TakesTimesThatDifferByLittle) {
  EXPECT_NEAR(TpotMs(Read({5, 20, {10, 10, 10, 10}, 62})).value(), 10, 0.6);
  EXPECT_NEAR(Milliseconds(Read({1, 20.05, {}, 20}).e2e.value()), 20, 0.1);
}

TEST_P(MeasuredRulesTest, AnAnswerInOnePieceHasNoTimeBetweenTokens) {
  const BenchmarkRequest request = Read({100, 780, {}, 780});
  EXPECT_NEAR(Milliseconds(request.ttft.value()), 780, 1e-3);
  EXPECT_EQ(TpotMs(request), std::nullopt);
}

TEST_P(MeasuredRulesTest, ATimeOfZeroWasNotMeasured) {
  const BenchmarkRequest request = Read({1, 0, {}, 60});
  EXPECT_EQ(request.ttft, std::nullopt);
}

std::string NameOf(const ::testing::TestParamInfo<Format>& test) { return test.param.name; }

std::vector<Format> WithGaps() {
  std::vector<Format> formats;
  std::ranges::copy_if(kFormats, std::back_inserter(formats), &Format::has_gaps);
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Formats, MeasuredRulesTest, ::testing::ValuesIn(kFormats), NameOf);
INSTANTIATE_TEST_SUITE_P(Formats, MeasuredGapsTest, ::testing::ValuesIn(WithGaps()), NameOf);

// Two answers of 5 tokens after 20 ms, and after 40 ms.
std::string Totals(const std::string& totals) {
  return R"({"input_lens":[10,20],"output_lens":[5,5],"start_times":[0,1],"ttfts":[0.02,0.04],)"
         R"("itls":[[0.01,0.01,0.01,0.01],[0.01,0.01,0.01,0.01]],"errors":["",""],)" +
         totals + "}";
}

TEST(MeasuredTotalsTest, AgreeWithTheRequests) {
  EXPECT_EQ(
      ErrorOf(Totals(R"("completed":2,"total_input_tokens":30,"total_output_tokens":10,)"
                     R"("mean_ttft_ms":30,"mean_tpot_ms":10,"mean_e2el_ms":70,"duration":1.08,)"
                     R"("request_throughput":1.852,"output_throughput":9.26)")),
      "accepted");
  EXPECT_THAT(ErrorOf(Totals(R"("completed":3)")),
              HasSubstr("completed: found 3; allowed: 2, that of the file's 2 requests"));
  EXPECT_THAT(ErrorOf(Totals(R"("failed":1)")), HasSubstr("failed: found 1; allowed: 0"));
  EXPECT_THAT(ErrorOf(Totals(R"("total_input_tokens":3000)")),
              HasSubstr("total_input_tokens: found 3000; allowed: 30"));
  EXPECT_THAT(ErrorOf(Totals(R"("total_output_tokens":5)")),
              HasSubstr("total_output_tokens: found 5; allowed: 10"));
  EXPECT_THAT(ErrorOf(Totals(R"("mean_ttft_ms":3)")),
              HasSubstr("mean_ttft_ms: found 3; allowed: the mean of the file's requests, 30"));
  EXPECT_THAT(ErrorOf(Totals(R"("mean_tpot_ms":20)")), HasSubstr("the file's requests, 10"));
  EXPECT_THAT(ErrorOf(Totals(R"("mean_e2el_ms":700)")), HasSubstr("the file's requests, 70"));
  // The second answer ends 1.08 s after the first sending.
  EXPECT_THAT(ErrorOf(Totals(R"("duration":0.5)")),
              HasSubstr("duration_seconds: found 0.5; allowed: at least the 1.08 s"));
}

TEST(MeasuredTotalsTest, AgreeWithEachOther) {
  const auto error = [](const std::string& totals) {
    return ErrorOf(
        R"({"completed":40,"total_input_tokens":40000,"total_output_tokens":4000,"duration":20,)" +
        totals + "}");
  };
  EXPECT_EQ(error(R"("mean_ttft_ms":40,"p50_ttft_ms":30,"p90_ttft_ms":30,"p99_ttft_ms":90)"),
            "accepted");
  EXPECT_THAT(error(R"("median_ttft_ms":95,"p99_ttft_ms":90)"),
              HasSubstr("p99_ttft_ms: found 90; allowed: at least p50_ttft_ms, 95"));
  EXPECT_THAT(error(R"("mean_ttft_ms":40,"mean_e2el_ms":30)"),
              HasSubstr("mean_e2el_ms: found 30; allowed: at least mean_ttft_ms, 40"));
  EXPECT_THAT(error(R"("request_throughput":3)"),
              HasSubstr("request_throughput: found 3; allowed: completed / duration_seconds = 2"));
  EXPECT_THAT(error(R"("output_throughput":100)"),
              HasSubstr("total_output_tokens / duration_seconds = 200"));
  EXPECT_THAT(error(R"("mean_ttft_ms":-4)"), HasSubstr("mean_ttft_ms: found '-4'"));
  EXPECT_THAT(error(R"("mean_ttft_ms":"40")"), HasSubstr("allowed: a number from 0 on"));
}

// Tools write 0 for a mean of nothing.
TEST(MeasuredTotalsTest, AMeanOfZeroWasNotMeasured) {
  const BenchmarkRun run = ReadText(
      R"({"completed":4,"total_input_tokens":40,"total_output_tokens":400,"mean_ttft_ms":780,)"
      R"("mean_tpot_ms":0.0,"median_tpot_ms":0.0,"p99_tpot_ms":0.0})");
  EXPECT_EQ(run.totals.at("mean_ttft_ms"), 780);
  EXPECT_FALSE(run.totals.contains("mean_tpot_ms"));
  EXPECT_FALSE(run.totals.contains("p99_tpot_ms"));
}

TEST(MeasuredTotalsTest, ListsAreAsLongAsEachOther) {
  EXPECT_THAT(ErrorOf(R"({"input_lens":[1,2],"output_lens":[3,4],"ttfts":[0.1]})"),
              HasSubstr("ttfts: has 1 elements; allowed: 2, as input_lens"));
}

// The first piece of a chat names the role, and is no token: 5 tokens come with 5 gaps.
TEST(MeasuredTotalsTest, TheFirstPieceOfAChatIsNoToken) {
  const std::string lists =
      R"("input_lens":[7],"output_lens":[3],"ttfts":[0.02],"itls":[[0.001,0.01,0.01]]})";
  const BenchmarkRun run = ReadText(R"({"backend":"openai-chat",)" + lists);
  EXPECT_EQ(run.requests.front().ttft, std::chrono::milliseconds(21));
  EXPECT_EQ(run.requests.front().gaps.size(), 2U);
  EXPECT_THAT(ErrorOf(R"({"backend":"openai",)" + lists), HasSubstr("has 3 gaps between 3 tokens"));
}

TEST(MeasuredTotalsTest, BucketsOfASnapshotHoldItsSamples) {
  const ScratchDirectory scratch("measured_snapshots");
  const auto error = [&](const std::string& ttft) {
    std::ofstream(scratch.File("before.prom")) << "vllm:e2e_request_latency_seconds_count 0\n";
    std::ofstream(scratch.File("after.prom"))
        << "vllm:e2e_request_latency_seconds_count 4\nvllm:e2e_request_latency_seconds_sum 4\n"
           "vllm:request_prompt_tokens_count 4\nvllm:request_prompt_tokens_sum 40\n"
           "vllm:request_generation_tokens_count 4\nvllm:request_generation_tokens_sum 40\n"
        << ttft;
    try {
      ReadMetricSnapshots(scratch.File("before.prom"), scratch.File("after.prom"));
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  const auto ttft = [](const char* first, const char* all, const char* count, const char* sum) {
    const std::string name = "vllm:time_to_first_token_seconds";
    return fmt::format(
        "{0}_bucket{{le=\"0.1\"}} {1}\n{0}_bucket{{le=\"0.5\"}} {2}\n"
        "{0}_bucket{{le=\"+Inf\"}} {2}\n{0}_count {3}\n{0}_sum {4}\n",
        name, first, all, count, sum);
  };
  EXPECT_EQ(error(ttft("3", "4", "4", "0.6")), "accepted");
  EXPECT_THAT(error(ttft("3", "4", "5", "0.6")), HasSubstr("histogram ttft: its count is 5"));
  // Three below 0.1 s and one below 0.5 s are at most 0.8 s.
  EXPECT_THAT(error(ttft("3", "4", "4", "2")),
              HasSubstr("its sum is 2000; allowed: 100 to 800, as its buckets hold"));
  EXPECT_THAT(error(ttft("4", "3", "4", "0.6")), HasSubstr("allowed: counts that rise"));
  EXPECT_THAT(error("vllm:time_to_first_token_seconds_count 4\n"
                    "vllm:time_to_first_token_seconds_sum 8\n"),
              HasSubstr("mean_e2el_ms: found 1000; allowed: at least mean_ttft_ms, 2000"));
}

}  // namespace
}  // namespace twin
