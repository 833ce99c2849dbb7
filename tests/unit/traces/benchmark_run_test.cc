// Results of benchmark tools and logs of requests, read as measured runs.
#include "traces/benchmark_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// Four requests, the last of which failed: first tokens after 20, 30 and 20 ms, then four gaps of
// 10 ms.
constexpr const char* kLists =
    R"("input_lens": [100, 100, 100, 50], "output_lens": [5, 5, 5, 0],
 "ttfts": [0.02, 0.03, 0.02, 0],
 "itls": [[0.01,0.01,0.01,0.01],[0.01,0.01,0.01,0.01],[0.01,0.01,0.01,0.01],[]],
 "errors": ["", "", "", "x"])";

BenchmarkRequest Answered(Duration sent, Duration ttft) {
  return {.sent = TimePoint{sent},
          .prompt_tokens = 100,
          .output_tokens = 5,
          .completed = true,
          .ttft = ttft,
          .e2e = ttft + milliseconds(40),
          .gaps = std::vector<Duration>(4, milliseconds(10))};
}

class BenchmarkRunTest : public ::testing::Test {
 protected:
  std::vector<BenchmarkRun> Read(const std::string& text, const std::string& name = "run.json") {
    std::ofstream(scratch_.File(name), std::ios::binary) << text;
    return ReadBenchmarkRuns(scratch_.File(name));
  }
  std::string ErrorOf(const std::string& text, const std::string& name = "run.json") {
    try {
      Read(text, name);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  ScratchDirectory scratch_{
      std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())};
};

TEST_F(BenchmarkRunTest, VllmsDetailsGiveTimesLengthsLoadAndWhatTheFileSaysOfTheServer) {
  const std::vector<BenchmarkRun> runs =
      Read(std::string(R"({"model_id": "meta-llama/Llama-3.1-8B", "backend": "openai",
 "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 2, "vllm_version": "0.15.1",
 "tensor_parallel_size": "2", "num_gpu_blocks": "28646", "label": null,
 "start_times": [1000, 1000.005, 1000.2, 1000.3],)") +
           kLists + "}");
  ASSERT_EQ(runs.size(), 1U);
  const BenchmarkRun& run = runs.front();
  EXPECT_EQ(run.format, "vLLM bench");
  EXPECT_EQ(run.name, "run.json");
  EXPECT_TRUE(run.has_times);
  EXPECT_THAT(run.requests, ElementsAre(Answered(milliseconds(0), milliseconds(20)),
                                        Answered(milliseconds(5), milliseconds(30)),
                                        Answered(milliseconds(200), milliseconds(20)),
                                        BenchmarkRequest{.sent = TimePoint{milliseconds(300)},
                                                         .prompt_tokens = 50}));
  EXPECT_EQ(run.failed(), 1);
  EXPECT_TRUE(std::isinf(run.rate.value()));
  EXPECT_EQ(run.cap, 2);
  EXPECT_THAT(run.facts, Contains(ServerFact{"--model", "meta-llama/Llama-3.1-8B", "model_id"}));
  EXPECT_THAT(run.facts, Contains(ServerFact{"--server", "vLLM 0.15.1", "vllm_version"}));
  EXPECT_THAT(run.facts, Contains(ServerFact{"--tp", "2", "tensor_parallel_size"}));
  EXPECT_THAT(run.facts, Contains(ServerFact{kFactKvBlocks, "28646", "num_gpu_blocks"}));
}

TEST_F(BenchmarkRunTest, VllmsTotalsAloneHaveNoRequests) {
  const std::vector<BenchmarkRun> runs =
      Read(R"({"completed": 3, "failed": 1, "total_input_tokens": 300, "total_output_tokens": 15,
 "request_rate": 10.0, "mean_ttft_ms": 23.3, "median_ttft_ms": 20.0, "p99_ttft_ms": 29.8})");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].requests, IsEmpty());
  EXPECT_EQ(runs[0].rate, 10);
  EXPECT_EQ(runs[0].failed(), 1);
  EXPECT_EQ(runs[0].totals.at("mean_ttft_ms"), 23.3);
  EXPECT_EQ(runs[0].totals.at("p50_ttft_ms"), 20.0);
}

TEST_F(BenchmarkRunTest, EachLineOfSglangsIsARunWithTheArgumentsOfItsServer) {
  std::string line = std::string(R"({"backend": "sglang", "request_rate": 10.0,
 "max_concurrency": null, "sharegpt_output_len": null, "mean_e2e_latency_ms": 63.3,
 "server_info": {"model_path": "Qwen/Qwen3-14B", "tp_size": 1, "version": "0.5.5",
 "chunked_prefill_size": 8192, "max_running_requests": null, "disable_radix_cache": true,
 "dp_size": 1, "max_total_num_tokens": 400000},)") +
                     kLists + "}";
  std::erase(line, '\n');
  const std::vector<BenchmarkRun> runs = Read(line + "\n" + line + "\n", "runs.jsonl");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].name, "runs.jsonl #2");
  EXPECT_EQ(runs[0].format, "SGLang bench_serving");
  EXPECT_FALSE(runs[0].has_times);
  EXPECT_EQ(runs[0].rate, 10);
  EXPECT_EQ(runs[0].cap, std::nullopt);
  ASSERT_EQ(runs[0].requests.size(), 4U);
  EXPECT_EQ(runs[0].requests[1], Answered(milliseconds(0), milliseconds(30)));
  std::vector<std::string> facts;
  for (const ServerFact& fact : runs[0].facts) facts.push_back(fact.option + "=" + fact.value);
  EXPECT_THAT(facts, ::testing::UnorderedElementsAre(
                         "--model=Qwen/Qwen3-14B", "--tp=1", "--server=SGLang 0.5.5",
                         "chunked_prefill_size=8192", "disable_radix_cache=true",
                         std::string(kFactKvTokens) + "=400000"));
}

TEST_F(BenchmarkRunTest, AiPerfsRecordsAreSortedByTheirTimesWithoutTheWarmUp) {
  const std::string metrics =
      R"("metrics": {"input_sequence_length": {"value": 100}, "output_sequence_length":
 {"value": 5}, "time_to_first_token": {"value": TTFT, "unit": "ms"}, "request_latency":
 {"value": E2E, "unit": "ms"}, "inter_chunk_latency": {"value": [10, 10, 10, 10]}},
 "error": null})";
  const auto record = [&](const char* start, const char* ttft, const char* e2e) {
    std::string text = metrics;
    text.replace(text.find("TTFT"), 4, ttft);
    text.replace(text.find("E2E"), 3, e2e);
    std::erase(text, '\n');
    return std::string(R"({"metadata": {"benchmark_phase": "profiling", "request_start_ns": )") +
           start + "}, " + text + "\n";
  };
  std::ofstream(scratch_.File("profile_export_aiperf.json"))
      << R"({"input_config": {"endpoint": {"model_names": ["qwen"]},
                            "loadgen": {"concurrency": 8}}})";
  const std::vector<BenchmarkRun> runs =
      Read(R"({"metadata": {"benchmark_phase": "warmup", "request_start_ns": 5}, "metrics": {}})"
           "\n" +
               record("1000005000000", "30", "70") + record("1000000000000", "20", "60") +
               R"({"metadata": {"request_start_ns": 1000300000000, "was_cancelled": true}, )"
               R"("metrics": {}, "error": {"code": 499}})"
               "\n",
           "profile_export.jsonl");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].requests,
              ElementsAre(Answered(milliseconds(0), milliseconds(20)),
                          Answered(milliseconds(5), milliseconds(30)),
                          BenchmarkRequest{.sent = TimePoint{milliseconds(300)}}));
  EXPECT_EQ(runs[0].cap, 8);
  EXPECT_THAT(runs[0].facts,
              ElementsAre(ServerFact{"--model", "qwen", "input_config.endpoint.model_names"}));
}

TEST_F(BenchmarkRunTest, InferencePerfsTokenTimesAreTimesSinceTheRequest) {
  const std::vector<BenchmarkRun> runs = Read(R"([
 {"start_time": 1000.0, "end_time": 1000.07, "request": "{\"model\": \"qwen\"}",
  "info": {"input_tokens": 100, "output_tokens": 5,
           "output_token_times": [1000.02, 1000.03, 1000.04, 1000.05, 1000.06]}, "error": null},
 {"start_time": 1000.3, "info": {}, "error": {"error_type": "TimeoutError"}}])");
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].requests.size(), 2U);
  // Decimals of seconds as doubles: exact to a microsecond.
  EXPECT_NEAR(Milliseconds(*runs[0].requests[0].ttft), 20, 1e-3);
  EXPECT_NEAR(Milliseconds(*runs[0].requests[0].e2e), 60, 1e-3);
  EXPECT_EQ(runs[0].requests[0].gaps.size(), 4U);
  EXPECT_FALSE(runs[0].requests[1].completed);
  EXPECT_THAT(runs[0].facts, ElementsAre(ServerFact{"--model", "qwen", "request"}));
}

// guidellm's time per output token counts the first one: (60 - 20) / 4 is its inter-token latency.
TEST_F(BenchmarkRunTest, EachBenchmarkOfGuidellmIsARun) {
  const std::string request =
      R"({"prompt_tokens": 100, "output_tokens": 5, "request_start_time": 1000.0,
 "request_latency": 0.061, "time_to_first_token_ms": 20, "time_per_output_token_ms": 12,
 "inter_token_latency_ms": 10})";
  const std::vector<BenchmarkRun> runs =
      Read(R"({"benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 4}},
 "requests": {"successful": [)" +
           request + R"(], "errored": [{"request_start_time": 1000.5}], "incomplete": []}},
 {"config": {"strategy": {"type_": "poisson", "rate": 2.5}}, "requests": {"successful": [)" +
           request + "]}}]}");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].cap, 4);
  EXPECT_EQ(runs[1].rate, 2.5);
  EXPECT_EQ(runs[0].failed(), 1);
  EXPECT_EQ(runs[0].requests[0].ttft, milliseconds(20));
  EXPECT_EQ(runs[0].requests[0].e2e, milliseconds(60));
}

TEST_F(BenchmarkRunTest, LogsMayHaveLatenciesInAnyUnitOrMomentsOfTheFirstAndLastToken) {
  const BenchmarkRequest wanted{.sent = {},
                                .prompt_tokens = 100,
                                .output_tokens = 5,
                                .completed = true,
                                .ttft = milliseconds(20),
                                .e2e = milliseconds(60)};
  for (const char* text :
       {"arrival_s,prompt_tokens,output_tokens,ttft_ms,e2e_s,status\n7,100,5,20,0.06,ok\n",
        "send_us,in_tokens,out_tokens,first_us,last_us,status\n7,100,5,20007,60007,200\n",
        R"({"arrival_s": 7, "prompt_tokens": 100, "output_tokens": 5,
           "ttft_s": 0.02, "e2el_ms": 60})"}) {
    const std::vector<BenchmarkRun> runs = Read(text, "log");
    ASSERT_EQ(runs.size(), 1U) << text;
    EXPECT_THAT(runs[0].requests, ElementsAre(wanted)) << text;
    EXPECT_TRUE(runs[0].has_times) << text;
  }
}

// 40 ms and 782.5 ms in each unit.
TEST_F(BenchmarkRunTest, AiPerfsUnitsAreReadOrRefused) {
  const auto record = [](const char* unit, const char* ttft, const char* e2e,
                         const char* tokens = "tokens") {
    return fmt::format(R"({{"metadata": {{"request_start_ns": 1}}, "metrics": {{)"
                       R"("input_sequence_length": {{"value": 1000, "unit": "{3}"}},)"
                       R"("output_sequence_length": {{"value": 100, "unit": "tokens"}},)"
                       R"("time_to_first_token": {{"value": {1}, "unit": "{0}"}},)"
                       R"("request_latency": {{"value": {2}, "unit": "{0}"}}}}}})",
                       unit, ttft, e2e, tokens);
  };
  for (const auto& [unit, ttft, e2e] :
       {std::tuple("ns", "40000000", "782500000"), std::tuple("us", "40000", "782500"),
        std::tuple("ms", "40", "782.5"), std::tuple("s", "0.04", "0.7825"),
        std::tuple("sec", "0.04", "0.7825"), std::tuple("Seconds", "0.04", "0.7825")}) {
    const BenchmarkRequest request = Read(record(unit, ttft, e2e)).front().requests.front();
    EXPECT_EQ(request.ttft, milliseconds(40)) << unit;
    EXPECT_EQ(request.e2e, std::chrono::microseconds(782'500)) << unit;
  }
  EXPECT_THAT(
      ErrorOf(record("fortnights", "1", "2")),
      HasSubstr("metrics.time_to_first_token.unit: found '\"fortnights\"'; allowed: ns, us, "
                "ms, s, sec, seconds"));
  EXPECT_THAT(ErrorOf(record("ms", "1", "2", "characters")),
              HasSubstr("metrics.input_sequence_length.unit: found '\"characters\"'; allowed: "
                        "tokens"));
}

TEST_F(BenchmarkRunTest, AFolderOfAiPerfsArtifactsIsTheRunInIt) {
  const std::string folder = scratch_.File("artifacts");
  std::filesystem::create_directory(folder);
  EXPECT_THAT([&] { (void)ReadBenchmarkRuns(folder); },
              ThrowsMessage<InputError>(HasSubstr(
                  "artifacts: is a folder without profile_export.jsonl and "
                  "profile_export_aiperf.json; allowed: a folder of AIPerf's artifacts")));
  std::ofstream(folder + "/profile_export_aiperf.json")
      << R"({"request_count": {"unit": "requests", "avg": 1},
             "benchmark_duration": {"unit": "ms", "avg": 2000},
             "input_sequence_length": {"unit": "tokens", "avg": 100},
             "output_sequence_length": {"unit": "tokens", "avg": 5},
             "request_latency": {"unit": "s", "avg": 0.06}})";
  EXPECT_THAT(ReadBenchmarkRuns(folder).front().requests, IsEmpty());
  std::ofstream(folder + "/profile_export.jsonl")
      << R"({"metadata": {"request_start_ns": 5}, "metrics": {"input_sequence_length":)"
      << R"( {"value": 100}, "output_sequence_length": {"value": 5}, "request_latency":)"
      << R"( {"value": 60, "unit": "ms"}}, "error": null})" << '\n';
  EXPECT_EQ(ReadBenchmarkRuns(folder).front().requests.size(), 1U);
}

// 4 requests in 2 s, of 100 and 5 tokens, under whatever units the file names.
TEST_F(BenchmarkRunTest, AiPerfsSummaryAloneIsARunOfTotals) {
  const auto summary = [](const char* rate) {
    return fmt::format(
        R"({{"request_count": {{"unit": "requests", "avg": 4}},
 "request_throughput": {{"unit": "{}", "avg": 2}},
 "input_sequence_length": {{"unit": "tokens", "avg": 100}},
 "output_sequence_length": {{"unit": "tokens", "avg": 5}},
 "benchmark_duration": {{"unit": "ms", "avg": 2000}},
 "time_to_first_token": {{"unit": "us", "avg": 20000, "p50": 10000, "p90": 30000}},
 "inter_token_latency": {{"unit": "ms", "avg": 10}},
 "request_latency": {{"unit": "s", "avg": 0.06}}}})",
        rate);
  };
  const BenchmarkRun run = Read(summary("requests/sec")).front();
  EXPECT_THAT(run.requests, IsEmpty());
  EXPECT_EQ(run.totals.at("completed"), 4);
  EXPECT_EQ(run.totals.at("total_input_tokens"), 400);
  EXPECT_EQ(run.totals.at("total_output_tokens"), 20);
  EXPECT_EQ(run.totals.at(kDurationTotal), 2);
  EXPECT_EQ(run.totals.at("mean_ttft_ms"), 20);
  EXPECT_EQ(run.totals.at("p90_ttft_ms"), 30);
  EXPECT_EQ(run.totals.at("mean_tpot_ms"), 10);
  EXPECT_EQ(run.totals.at("mean_e2el_ms"), 60);
  EXPECT_THAT(
      ErrorOf(summary("requests/hour")),
      HasSubstr("request_throughput.unit: found '\"requests/hour\"'; allowed: requests/sec"));
}

// The files have 10 requests of 100 and 5 tokens in their metrics, and list none, or one.
TEST_F(BenchmarkRunTest, GuidellmsTotalsCountWhereItListsASampleOfItsRequests) {
  const auto file = [](const char* requests) {
    return fmt::format(R"({{"benchmarks": [{{"config": {{"strategy": {{"type_": "synchronous"}}}},
 "metrics": {{"request_totals": {{"successful": 10, "errored": 1, "incomplete": 0}},
 "requests_per_second": {{"successful": {{"mean": 2.5}}}},
 "prompt_token_count": {{"successful": {{"mean": 100}}}},
 "output_token_count": {{"successful": {{"mean": 5, "std_dev": 0}}}},
 "inter_token_latency_ms": {{"successful": {{"mean": 10}}}},
 "request_latency": {{"successful": {{"mean": 0.061, "percentiles": {{"p99": 0.1}}}}}},
 "time_to_first_token_ms": {{"successful": {{"mean": 20, "median": 19}}}}}},
 "requests": {}}}]}})",
                       requests);
  };
  const std::string sample =
      R"({"successful": [{"prompt_tokens": 100, "output_tokens": 5, "start_time": 1}]})";
  for (const std::string& requests : {std::string("null"), sample}) {
    const BenchmarkRun run = Read(file(requests.c_str())).front();
    EXPECT_THAT(run.requests, IsEmpty());
    EXPECT_FALSE(run.has_times);
    EXPECT_EQ(run.totals.at("completed"), 10);
    EXPECT_EQ(run.failed(), 1);
    EXPECT_EQ(run.totals.at("total_output_tokens"), 50);
    EXPECT_EQ(run.totals.at("mean_ttft_ms"), 20);
    EXPECT_EQ(run.totals.at("p50_ttft_ms"), 19);
    EXPECT_EQ(run.totals.at("mean_e2el_ms"), 61);
    EXPECT_EQ(run.totals.at("p99_e2el_ms"), 100);
    EXPECT_EQ(run.totals.at("mean_tpot_ms"), 10);  // all answers have one length
  }
  EXPECT_THAT(Read(file(sample.c_str())).front().notes,
              ElementsAre("the file lists a sample of 1 of 10 requests; its totals are read "
                          "instead"));
  EXPECT_THAT(ErrorOf(R"({"benchmarks": [{"requests": null}]})"),
              HasSubstr("completed: missing, or none; allowed: a result of"));
}

TEST_F(BenchmarkRunTest, ColumnsThatNothingReadsAreNamed) {
  const std::vector<BenchmarkRun> runs = Read(
      "id,start_time,prompt_tokens,output_tokens,ttft,e2e_s\n"
      "1,2026-11-25T10:00:00.5Z,100,5,20,0.06\n2,2026-11-25 10:00:02,100,5,20,0.06\n",
      "log.csv");
  EXPECT_THAT(
      runs[0].notes,
      ElementsAre("not used: ttft (the name of a time ends with its unit: ttft_ms, e2e_s)"));
  EXPECT_TRUE(runs[0].has_times);
  EXPECT_EQ(runs[0].requests[1].sent, TimePoint{milliseconds(1500)});
  EXPECT_EQ(runs[0].requests[0].ttft, std::nullopt);
  EXPECT_THAT(Read("send_s,in_tokens,out_tokens,e2e_s\n1,2,3,4\n", "log.csv")[0].notes, IsEmpty());
}

// ttft + 4 x tpot = e2e: each of the three follows from the other two.
TEST_F(BenchmarkRunTest, ALogsTimePerTokenGivesTheTimeThatItLacks) {
  for (const char* text : {"prompt_tokens,output_tokens,ttft_ms,tpot_ms\n100,5,20,10\n",
                           "prompt_tokens,output_tokens,e2e_ms,tpot_ms\n100,5,60,10\n"}) {
    const BenchmarkRequest request = Read(text, "log.csv")[0].requests[0];
    EXPECT_EQ(request.ttft, milliseconds(20)) << text;
    EXPECT_EQ(request.e2e, milliseconds(60)) << text;
  }
}

TEST_F(BenchmarkRunTest, ATraceIsNamedWithWhatReadsIt) {
  for (const auto& [sample, format] :
       {std::pair("azure_2023.csv", "azure"), std::pair("burstgpt.csv", "burstgpt"),
        std::pair("mooncake.jsonl", "mooncake"), std::pair("qwen_bailian.jsonl", "qwen_bailian"),
        std::pair("llmservingsim.jsonl", "llmservingsim"), std::pair("apexplus.csv", "apexplus"),
        std::pair("vidur.csv", "vidur"), std::pair("twin.csv", "twin")}) {
    EXPECT_THAT(ErrorOf(ReadText(SamplePath(sample))),
                AllOf(HasSubstr(fmt::format("is a trace in the format {}, without times", format)),
                      HasSubstr("`run --trace` and `trace info` read this file")));
  }
}

TEST_F(BenchmarkRunTest, RefusesBadInputInOneLine) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("is empty; allowed: a result of `vllm bench serve`"));
  EXPECT_THAT(ErrorOf("{\"input_lens\": [5"), HasSubstr("allowed: a result of"));
  EXPECT_THAT(ErrorOf(R"({"input_lens": [5], "output_lens": ["x"]})"),
              HasSubstr("output_lens: found '\"x\"'; allowed: an integer from 1"));
  EXPECT_THAT(ErrorOf(R"({"input_lens": [5], "output_lens": [5], "ttfts": [-1]})"),
              HasSubstr("ttfts: found '-1'; allowed: a number from 0"));
  EXPECT_THAT(ErrorOf(R"({"input_lens": [5], "output_lens": [0]})"),
              HasSubstr("none of 1 requests completed"));
  EXPECT_THAT(ErrorOf(R"({"completed": 0, "request_throughput": 1})"),
              HasSubstr("completed: missing, or none"));
  EXPECT_THAT(ErrorOf("arrival_s,prompt_tokens\n1,2\n"),
              HasSubstr("output_tokens: missing; allowed: a log of requests with arrival_s"));
  EXPECT_THAT(ErrorOf("arrival_s,prompt_tokens,output_tokens,status\n1,2,3,green\n"),
              HasSubstr("status: found 'green'"));
  EXPECT_THAT(ErrorOf("[1, 2]"), HasSubstr("no list of requests"));
}

}  // namespace
}  // namespace twin
