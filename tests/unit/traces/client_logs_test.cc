// Logs and exports of load generators.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/workload.h"

namespace twin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TracedRequest Sent(Duration arrival, std::int32_t prompt, std::int32_t output,
                   std::uint32_t tenant = 0) {
  TracedRequest request;
  request.arrival = TimePoint{arrival};
  request.prompt_tokens = prompt;
  request.output_tokens = request.max_output_tokens = output;
  request.tenant = tenant;
  return request;
}

// The requests of a sample, whose format is recognised.
std::vector<TracedRequest> Sample(const std::string& name, std::string_view format = "") {
  return ParseText(ReadText(SamplePath(name)), format);
}

std::string ErrorOf(const std::string& text, const TraceReadOptions& options = {}) {
  try {
    ParseText(text, "", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(RequestLogTest, RowsAreSortedAndTheFirstIsSentAtTimeZero) {
  EXPECT_THAT(Sample("request_log.csv"),
              ElementsAre(Sent(microseconds(0), 48, 16), Sent(microseconds(1500), 100, 10),
                          Sent(microseconds(3000), 7, 2)));
}

TEST(RequestLogTest, StreamedLogsNumberTenantsAndLeaveFailuresOut) {
  EXPECT_THAT(Sample("request_log_streamed.csv"),
              ElementsAre(Sent(microseconds(0), 100, 4, 0), Sent(microseconds(400), 50, 4, 1),
                          Sent(microseconds(800), 70, 4, 0)));
}

TEST(RequestLogTest, TheIntendedClockIsReadWhereAskedFor) {
  EXPECT_THAT(Sample("request_log_streamed.csv", "request_log_intended"),
              ElementsAre(Sent(microseconds(0), 100, 4, 0), Sent(microseconds(500), 50, 4, 1),
                          Sent(microseconds(700), 70, 4, 0)));
}

TEST(RequestLogTest, AFailedRowMayLackItsLengths) {
  EXPECT_THAT(Sample("request_log_latencies.csv"),
              ElementsAre(Sent(microseconds(0), 591, 140), Sent(microseconds(60000), 589, 48)));
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("request_log_latencies.csv")),
                      {.filters = {}, .failed_rows = FailedRows::kRefuse}),
              HasSubstr("trace:3: error: found '1'"));
}

TEST(RequestLogTest, ReadsTimesOfEnginesAndUsers) {
  EXPECT_THAT(Sample("request_log_engine.csv"),
              ElementsAre(Sent(microseconds(0), 2358, 531), Sent(microseconds(285059), 1034, 769)));
  EXPECT_THAT(Sample("request_log_users.csv"),
              ElementsAre(Sent(milliseconds(0), 85, 3), Sent(milliseconds(10), 19, 2)));
}

// Only the sets of columns of known programs were accepted.
TEST(RequestLogTest, OneTimeAndTheLengthsAreEnough) {
  for (const char* time : {"send_us", "arrival_us"}) {
    EXPECT_THAT(ParseText(std::string(time) + ",in_tokens,out_tokens\n7,5,6\n9,7,8\n"),
                ElementsAre(Sent({}, 5, 6), Sent(microseconds(2), 7, 8)))
        << time;
  }
  EXPECT_THAT(ParseText("arrival_s,in_tokens,out_tokens\n1.5,5,6\n2,7,8\n"),
              ElementsAre(Sent({}, 5, 6), Sent(milliseconds(500), 7, 8)));
  EXPECT_THAT(ParseText("out_tokens,start_ms,in_tokens\n6,3,5\n8,4,7\n"),
              ElementsAre(Sent({}, 5, 6), Sent(milliseconds(1), 7, 8)));
  EXPECT_THAT(
      ParseText("intended_arrival_us,in_tokens,out_tokens\n7,5,6\n9,7,8\n", "request_log_intended"),
      ElementsAre(Sent({}, 5, 6), Sent(microseconds(2), 7, 8)));
}

TEST(RequestLogTest, OtherColumnsAreIgnoredAndFailedRowsSkippedByStatusOrError) {
  EXPECT_THAT(ParseText("id,send_us,in_tokens,ttft_us,out_tokens,status,error,user,tenant\n"
                        "a,0,5,x,6,200,,u,t\nb,1,,,,408,,u,t\nc,2,5,x,6,ok,1,u,t\n"
                        "d,3,7,y,8,0,0,u,s\n"),
              ElementsAre(Sent({}, 5, 6), Sent(microseconds(3), 7, 8, 1)));
  EXPECT_THAT(ErrorOf("send_us,in_tokens,out_tokens,user\n1,2,3\n"),
              HasSubstr("trace:2: column 4: found '1,2,3' with 3 columns"));
}

TEST(RequestLogTest, AMissingColumnIsNamed) {
  EXPECT_THAT(ErrorOf("send_us,in_tokens,user\n1,2,3\n"),
              HasSubstr("header: column 'out_tokens' is missing; allowed: the columns send_us, "
                        "in_tokens, out_tokens, [tenant], [status], [error], [success], "
                        "[conversation_id], [session_id], [session], and others"));
  // The intended times are no times of sending.
  EXPECT_THAT(ErrorOf("intended_arrival_us,in_tokens,out_tokens\n1,2,3\n"),
              HasSubstr("header: column 'send_us' is missing"));
  EXPECT_THAT(ErrorOf("send_us,in_tokens,out_tokens,out_tokens\n1,2,3,4\n"),
              HasSubstr("each column once"));
}

TEST(RequestLogTest, RowsOfOtherFormatsAreStillRefusedWithMoreColumns) {
  EXPECT_THAT(ErrorOf("arrival_s,prompt_tokens,output_tokens,user\n1,2,3,4\n"),
              HasSubstr("header: found 'user'"));
}

TEST(RequestLogTest, SkippedRowsAreCountedByCause) {
  const auto reader =
      OpenText("send_us,in_tokens,out_tokens,status\n0,5,6,ok\n1,5,0,ok\n2,,,408\n3,,,500\n");
  EXPECT_EQ(ReadAll(*reader).size(), 1u);
  EXPECT_EQ(SkippedText(reader->counts()), "3 of 4 rows skipped: 2 failed, 1 without output");
  EXPECT_EQ(SkippedText({.requests = 2, .filtered = 1}),
            "1 of 3 rows skipped: 1 removed by a filter");
  EXPECT_EQ(SkippedText({.requests = 2}), "");
}

// "no request in the file; allowed: at least one row behind the header"
TEST(RequestLogTest, AFileOfFailuresAloneSaysWhyNothingIsLeft) {
  EXPECT_THAT(ErrorOf("send_us,in_tokens,out_tokens,status\n1,5,0,ok\n2,,,408\n"),
              HasSubstr("trace:3: 2 of 2 rows skipped: 1 failed, 1 without output; allowed: at "
                        "least one that succeeded"));
  EXPECT_THAT(ErrorOf(R"({"input_lens": [5], "output_lens": [0]})"),
              HasSubstr("none of 1 requests completed; allowed: at least one"));
}

// S7. pandas writes a column of whole numbers as 200.0 as soon as one is missing.
TEST(RequestLogTest, AnEmptyStateIsNoSuccessWhereOtherRowsHaveOne) {
  const std::string text =
      "in_tokens,out_tokens,arrival_s,status\n10,5,0,200.0\n20,6,1.5,200.0\n30,0,2,\n40,7,3,\n";
  const auto reader = OpenText(text);
  EXPECT_THAT(ReadAll(*reader), ElementsAre(Sent({}, 10, 5), Sent(milliseconds(1500), 20, 6)));
  EXPECT_EQ(SkippedText(reader->counts()), "2 of 4 rows skipped: 1 failed, 1 without output");
  EXPECT_THAT(ErrorOf(text, {.filters = {}, .failed_rows = FailedRows::kRefuse}),
              HasSubstr("trace:4: status: is empty where other rows have one"));
  // The state of a later row counts, and the row without one may lack its lengths.
  EXPECT_THAT(ParseText("in_tokens,out_tokens,arrival_s,status\n40,7,0,\n,,1,NaN\n10,5,2,ok\n"),
              ElementsAre(Sent({}, 10, 5)));
}

TEST(RequestLogTest, RowsOfAFileWithoutStatesSucceeded) {
  EXPECT_THAT(ParseText("in_tokens,out_tokens,arrival_s,status,tenant\n40,7,3,,b\n10,5,2,nan,a\n"),
              ElementsAre(Sent({}, 10, 5, 1), Sent(milliseconds(1000), 40, 7, 0)));
  EXPECT_THAT(ErrorOf("in_tokens,out_tokens,arrival_s,status\n10,5,0,\n,5,1,\n"),
              HasSubstr("trace:3: in_tokens: found ''"));
}

TEST(RequestLogTest, WordsForNoErrorKeepTheRow) {
  for (const char* word : {"nan", "NaN", "null", "[]", "\"\"", "\"\"\"\"\"\"", "None", "False", "0",
                           "0.0", "{}", "<NA>", "N/A"}) {
    EXPECT_EQ(ParseText(std::string("in_tokens,out_tokens,arrival_s,error\n10,5,0,") + word + "\n")
                  .size(),
              1u)
        << word;
  }
  EXPECT_THAT(ErrorOf("in_tokens,out_tokens,arrival_s,error\n10,5,0,connection reset\n"),
              HasSubstr("1 of 1 rows skipped: 1 failed"));
}

TEST(RequestLogTest, AnUnknownStateIsRefusedAndNotTakenForFailure) {
  EXPECT_THAT(ErrorOf("in_tokens,out_tokens,arrival_s,status\n10,5,0,ok\n10,5,0,blue\n"),
              HasSubstr("trace:3: status: found 'blue'; allowed: a code (0 and 200 to 299 are "
                        "success) or a word such as ok"));
}

TEST(RequestLogTest, TheColumnSuccessIsAState) {
  EXPECT_THAT(ParseText("in_tokens,out_tokens,arrival_s,success\n10,5,0,True\n20,5,1,False\n"),
              ElementsAre(Sent({}, 10, 5)));
}

TEST(ClientExportTest, ReadsTheListsOfVllmBench) {
  EXPECT_THAT(Sample("vllm_bench.json"),
              ElementsAre(Sent(milliseconds(0), 48, 16), Sent(milliseconds(250), 100, 10)));
}

TEST(ClientExportTest, OlderVllmBenchFilesHoldLengthsOnly) {
  const auto reader = OpenText(R"({"input_lens": [5, 6], "output_lens": [7, 8]})");
  EXPECT_FALSE(reader->has_arrivals());
  EXPECT_THAT(ReadAll(*reader), ElementsAre(Sent({}, 5, 7), Sent({}, 6, 8)));
}

// "header: found '{'"
TEST(ClientExportTest, AnIndentedVllmBenchFileIsRecognised) {
  EXPECT_THAT(ParseText("{\n  \"date\": \"20261125\",\n  \"input_lens\": [\n    5\n  ],\n"
                        "  \"output_lens\": [\n    7\n  ]\n}"),
              ElementsAre(Sent({}, 5, 7)));
  EXPECT_THAT(
      ErrorOf("{\n  \"date\": 1\n}\n"),
      HasSubstr("allowed: a log of requests with arrival_s, prompt_tokens and output_tokens"));
}

// json.dump() writes no line end.
TEST(ClientExportTest, ADocumentWithoutALineEndIsWhole) {
  for (const std::string text :
       {R"({"input_lens": [5, 6], "output_lens": [7, 8]})",
        R"([{"start_time": 1, "info": {"input_tokens": 5, "output_tokens": 6}}])",
        R"({"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids": [1]})"}) {
    const auto reader = OpenText(text);
    EXPECT_FALSE(ReadAll(*reader).empty());
    EXPECT_FALSE(reader->may_be_cut()) << text;
  }
  const auto log = OpenText("send_us,in_tokens,out_tokens\n1,2,3");
  EXPECT_EQ(ReadAll(*log).size(), 1u);
  EXPECT_TRUE(log->may_be_cut());
}

TEST(ClientExportTest, ReadsThePerRequestReportOfInferencePerf) {
  EXPECT_THAT(Sample("inference_perf.json"),
              ElementsAre(Sent(milliseconds(0), 100, 10), Sent(milliseconds(500), 48, 16)));
}

TEST(ClientExportTest, ReadsTheRecordsOfAiPerfWithoutItsWarmUp) {
  EXPECT_THAT(Sample("aiperf.jsonl"),
              ElementsAre(Sent(microseconds(0), 100, 10), Sent(microseconds(2), 48, 16)));
}

TEST(ClientExportTest, NamesTheMemberThatIsMissing) {
  EXPECT_THAT(ErrorOf(R"([{"start_time": 1, "info": {"input_tokens": 5}}])"),
              HasSubstr("info.output_tokens: missing, or null; allowed: an integer from 1"));
  EXPECT_THAT(ErrorOf("[{"), HasSubstr("allowed: a result of `vllm bench serve`"));
}

// The keys of 2026 (request_metrics, response_metrics), with the server's count where it has one.
TEST(ClientExportTest, ReadsTheReportOfCurrentInferencePerf) {
  EXPECT_THAT(
      ParseText(R"([{"start_time": 7, "info": {"request_metrics": {"text": {"input_tokens": 5}},
                     "response_metrics": {"output_tokens": 6, "server_usage": null},
                     "input_tokens": 5}, "error": null},
                    {"start_time": 8, "info": {"request_metrics": {"text": {"input_tokens": 7}},
                     "response_metrics": {"output_tokens": 6,
                                          "server_usage": {"completion_tokens": 8}}}}])"),
      ElementsAre(Sent({}, 5, 6), Sent(milliseconds(1000), 7, 8)));
}

TEST(ClientExportTest, OtherArraysAreNotTakenForInferencePerf) {
  EXPECT_THAT(ErrorOf(R"([{"id": "x", "conversations": [{"from": "human", "value": "hi"}]}])"),
              HasSubstr("ShareGPT's conversations; allowed: counts of tokens"));
  EXPECT_THAT(ErrorOf(R"([{"prompt": 5}])"),
              HasSubstr("prompt_tokens: missing; allowed: a log of requests"));
}

// json.dump() of Python writes NaN and Infinity.
TEST(ClientExportTest, ReadsOverNumbersThatJsonDoesNotHave) {
  EXPECT_THAT(ParseText("{\"note\": \"NaN \\\" Infinity\", \"request_rate\": Infinity, \"x\": "
                        "[NaN, -Infinity], \"input_lens\": [5], \"output_lens\": [7]}"),
              ElementsAre(Sent({}, 5, 7)));
}

TEST(ClientExportTest, NoErrorHasManySpellings) {
  EXPECT_THAT(ParseText(R"({"input_lens": [1, 2, 3, 4], "output_lens": [5, 6, 7, 8],
                            "errors": ["", null, "None", "refused"]})"),
              ElementsAre(Sent({}, 1, 5), Sent({}, 2, 6), Sent({}, 3, 7)));
}

// The load is what was sent, in order of sending; the tool's failures are left out.
TEST(ClientExportTest, ReadsOneBenchmarkOfGuidellm) {
  EXPECT_THAT(Sample("guidellm.json"),
              ElementsAre(Sent(milliseconds(0), 100, 10), Sent(milliseconds(500), 48, 16)));
}

TEST(ClientExportTest, ReadsALogOfJsonLinesWithItsConversations) {
  std::vector<TracedRequest> wanted{Sent(milliseconds(0), 100, 10),
                                    Sent(milliseconds(500), 48, 16)};
  for (TracedRequest& request : wanted) request.session = 1;
  EXPECT_EQ(Sample("request_log_json.jsonl"), wanted);
}

TEST(ClientExportTest, ResultsThatAreNoTraceSayWhatReadsThem) {
  EXPECT_THAT(
      ErrorOf(R"({"total_input_tokens": 5, "request_throughput": 1, "completed": 1,
                          "total_output_tokens": 5})"),
      HasSubstr("totals of a run of vLLM bench alone; allowed: a result with its requests "
                "(AIPerf: profile_export.jsonl); `compare` and `validate --measured` read totals"));
  const std::string lists = R"({"input_lens": [5], "output_lens": [7]})";
  EXPECT_THAT(ErrorOf(lists + "\n" + lists), HasSubstr("holds 2 runs of vLLM bench; allowed: a "
                                                       "file with one of them"));
  EXPECT_THAT(ErrorOf("# HELP vllm:num_requests_running x\n"),
              HasSubstr("is a snapshot of /metrics, which lists no requests"));
  EXPECT_THAT(ErrorOf("request,arrival_s,prompt_tokens,output_tokens,ttft_ms\n0,1,2,3,4\n"),
              HasSubstr("which `compare` and `validate --measured` read"));
}

TEST(RequestLogTest, AConversationsRowsShareASession) {
  for (const char* column : {"conversation_id", "session_id", "session"}) {
    const std::vector<TracedRequest> requests =
        ParseText(fmt::format("send_us,in_tokens,out_tokens,{}\n0,5,6,a\n1,5,6,b\n2,9,6,a\n"
                              "3,5,6,\n",
                              column));
    std::vector<std::uint64_t> sessions;
    for (const TracedRequest& request : requests) sessions.push_back(request.session);
    EXPECT_THAT(sessions, ElementsAre(1, 2, 1, 0)) << column;
  }
}

TEST(RequestLogTest, ColumnsThatAreNotUsedAreNamedOnce) {
  const auto reader =
      OpenText("id,send_us,in_tokens,out_tokens,user_id,ttft\n1,0,5,6,u,7\n2,1,5,6,u,7\n");
  ReadAll(*reader);
  EXPECT_EQ(reader->note(), "not used: user_id, ttft");
}

TEST(PromptPoolTest, RequestsOfOnePromptShareItAsFarAsTheShorterReaches) {
  ScratchDirectory folder("prompt_pool");
  const std::string path = folder.File("log.csv");
  std::ofstream(path) << "send_us,in_tokens,out_tokens\n0,40,1\n1,40,1\n2,20,1\n3,40,1\n";
  WorkloadConfig config;
  config.trace = TraceConfig{.path = path};
  config.prompt_pool = 2;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config, 1);
  std::vector<std::vector<std::uint64_t>> chunks;
  while (const TracedRequest* request = source->Peek()) {
    EXPECT_EQ(request->prefix_chunk_tokens, 16);
    chunks.push_back(request->prefix_chunks);
    source->Take();
  }
  ASSERT_EQ(chunks.size(), 4u);
  ASSERT_EQ(chunks[0].size(), 3u);  // 16, 16 and 8 tokens
  ASSERT_EQ(chunks[2].size(), 2u);
  EXPECT_EQ(chunks[1], chunks[3]);
  EXPECT_NE(chunks[0][0], chunks[1][0]);
  EXPECT_EQ(chunks[0][0], chunks[2][0]);
  EXPECT_EQ(chunks[0][1], chunks[2][1]);
}

TEST(PromptPoolTest, ExcludesConversations) {
  WorkloadConfig config;
  config.requests = 1;
  config.prompt_pool = 3;
  config.shape.shared_prefix = {.prompts = 2, .tokens = 5};
  EXPECT_THROW(Validate(config), InputError);
}

}  // namespace
}  // namespace twin
