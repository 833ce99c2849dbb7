#include "traces/trace_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "tests/support/gzip.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/jsonl_trace_reader.h"
#include "traces/trace_format.h"

namespace twin {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::Gzip;
using ::testing::HasSubstr;
using ::testing::Not;

TracedRequest Plain(Duration arrival, std::int32_t prompt, std::int32_t output) {
  TracedRequest request;
  request.arrival = TimePoint{arrival};
  request.prompt_tokens = prompt;
  request.output_tokens = output;
  request.max_output_tokens = output;
  return request;
}

std::string ErrorOf(const std::string& text, std::string_view format = "",
                    const TraceReadOptions& options = {}) {
  try {
    ParseText(text, format, options);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "accepted";
}

TEST(AzureTraceTest, ReadsTheHeaderOf2023WithTimesSinceTheFirst) {
  EXPECT_EQ(ParseText(ReadText(SamplePath("azure_2023.csv"))),
            (std::vector{Plain(Duration{0}, 4808, 10), Plain(milliseconds(52), 3180, 8),
                         Plain(Duration{98'189'000}, 110, 27),
                         Plain(Duration{56'020'040'000}, 7433, 14)}));
}

TEST(AzureTraceTest, ReadsTimeZonesAndMissingFractionsOf2024) {
  EXPECT_EQ(ParseText(ReadText(SamplePath("azure_2024.csv"))),
            (std::vector{Plain(Duration{0}, 2162, 5), Plain(Duration{7'405'000}, 2399, 6),
                         Plain(Duration{990'070'000}, 76, 15)}));
}

TEST(AzureTraceTest, TakesTheZoneIntoAccount) {
  const auto requests = ParseText(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29T23:30:00+00:00,1,1\n"
      "2024-03-01T01:30:00+01:00,1,1\n");
  EXPECT_EQ(requests.at(1).arrival, TimePoint{std::chrono::hours(1)});
}

TEST(AzureTraceTest, ReadsSecondsExactly) {
  EXPECT_EQ(ParseText("arrival_s,prompt_tokens,output_tokens\n0.0,1,1\n1.123456789,2,2\n"
                      "3999999999.9999999994,3,3\n"),
            (std::vector{Plain(Duration{0}, 1, 1), Plain(Duration{1'123'456'789}, 2, 2),
                         Plain(Duration{3'999'999'999'999'999'999}, 3, 3)}));
}

TEST(MooncakeTraceTest, ReadsMillisecondsAndPrefixChunks) {
  const auto requests = ParseText(ReadText(SamplePath("mooncake.jsonl")));
  ASSERT_EQ(requests.size(), 3u);
  TracedRequest second = Plain(milliseconds(40), 1536, 30);
  second.prefix_chunks = {0, 1, 3};
  second.prefix_chunk_tokens = 512;
  EXPECT_EQ(requests[1], second);
}

TEST(LlmServingSimTraceTest, ReadsSixteenTokenBlocks) {
  const auto requests = ParseText(ReadText(SamplePath("llmservingsim.jsonl")));
  ASSERT_EQ(requests.size(), 2u);
  TracedRequest first = Plain(Duration{46'926'808}, 40, 5);
  first.prefix_chunks = {1, 2};
  first.prefix_chunk_tokens = 16;
  EXPECT_EQ(requests[0], first);
}

// S8: the keys of every data set of that repository.
TEST(LlmServingSimTraceTest, ReadsTheLinesOfItsGenerators) {
  EXPECT_EQ(
      ParseText(
          R"({"input_toks":10,"output_toks":70,"arrival_time_ns":46926808,"input_tok_ids":[1,2,3]}
{"input_toks":22,"output_toks":104,"arrival_time_ns":347938952,"input_tok_ids":[1,2,3]}
)"),
      (std::vector{Plain(Duration{46'926'808}, 10, 70), Plain(Duration{347'938'952}, 22, 104)}));
}

// Prompts of 40 tokens that are equal for the first 32 share two chunks of 16. The second prompt
// with its 8 output tokens fills a third.
TEST(LlmServingSimTraceTest, PrefixesFollowFromTokenIds) {
  const auto line = [](int time, int last, bool output) {
    std::string ids;
    for (int i = 0; i < 40; ++i) ids += std::to_string(i < 39 ? i : last) + (i < 39 ? "," : "");
    return "{\"input_toks\":40,\"output_toks\":8,\"arrival_time_ns\":" + std::to_string(time) +
           ",\"input_tok_ids\":[" + ids + "]" +
           (output ? ",\"output_tok_ids\":[1,2,3,4,5,6,7,8]" : "") + "}\n";
  };
  const auto requests = ParseText(line(0, 39, false) + line(1, 99, true));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prefix_chunk_tokens, 16);
  ASSERT_EQ(requests[0].prefix_chunks.size(), 2u);
  ASSERT_EQ(requests[1].prefix_chunks.size(), 3u);
  EXPECT_EQ(requests[0].prefix_chunks[0], requests[1].prefix_chunks[0]);
  EXPECT_EQ(requests[0].prefix_chunks[1], requests[1].prefix_chunks[1]);
  EXPECT_NE(requests[0].prefix_chunks[0], requests[0].prefix_chunks[1]);
}

// A session's second request follows the answer of the first and a tool of 2 s.
TEST(LlmServingSimTraceTest, SessionsAreRequestsOfOneClient) {
  const auto reader = OpenText(R"({"session_id":"a","arrival_time_ns":5000000000,"sub_requests":[)"
                               R"({"input_toks":10,"output_toks":2,"tool_duration_ns":2000000000},)"
                               R"({"input_toks":20,"output_toks":3}]}
{"input_toks":30,"output_toks":4,"arrival_time_ns":6000000000}
)");
  TracedRequest first = Plain(std::chrono::seconds(5), 10, 2);
  TracedRequest second = Plain(std::chrono::seconds(7), 20, 3);
  first.session = second.session = 1;
  EXPECT_EQ(ReadAll(*reader), (std::vector{first, Plain(std::chrono::seconds(6), 30, 4), second}));
  EXPECT_EQ(NoteText(reader->counts(), reader->note()),
            "1 of 3 requests follow the answer of another one, and arrive as if that took no time");
  EXPECT_THAT(ErrorOf(R"({"workflow_id":"w","arrival_time_ns":0,"nodes":[]})"),
              HasSubstr("trace:1: nodes: a workflow"));
}

// Mooncake's keys, but seconds: 61.114 was read as 0.061 s where a line has no hash_ids.
TEST(QwenBailianTraceTest, TimesAreSecondsAndChunksSixteenTokens) {
  const auto requests = ParseText(ReadText(SamplePath("qwen_bailian.jsonl")));
  TracedRequest first = Plain(milliseconds(500), 20, 132);
  first.prefix_chunks = {7, 8};
  first.prefix_chunk_tokens = 16;
  TracedRequest second = Plain(milliseconds(61'114), 521, 3);
  first.session = second.session = 1;
  EXPECT_EQ(requests, (std::vector{first, second}));
}

std::vector<std::uint64_t> SessionsOf(const std::string& text) {
  std::vector<std::uint64_t> sessions;
  for (const TracedRequest& request : ParseText(text)) sessions.push_back(request.session);
  return sessions;
}

// A chat names the chat whose answer it follows, -1 if none. Chat 9 is not in the file: its two
// answers are one conversation.
TEST(QwenBailianTraceTest, ChatsThatFollowEachOtherAreOneSession) {
  const auto row = [](int chat, int parent) {
    return fmt::format(R"({{"chat_id":{},"parent_chat_id":{},"timestamp":0,"input_length":32,)"
                       R"("output_length":16,"type":"text","turn":1}})",
                       chat, parent) +
           "\n";
  };
  EXPECT_EQ(SessionsOf(row(1, -1) + row(2, -1) + row(3, 1) + row(4, 2) + row(5, 3) + row(6, 9) +
                       row(7, 9)),
            (std::vector<std::uint64_t>{1, 2, 1, 2, 1, 3, 3}));
  const auto reader = OpenText(row(1, -1));
  ReadAll(*reader);
  EXPECT_EQ(reader->note(), "not used: turn, type");
}

TEST(SessionTest, EachFormatKeepsTheConversationsThatItNames) {
  const std::vector<std::uint64_t> wanted{1, 2, 1};
  std::string mooncake;
  std::string single;
  std::string blocks;
  for (const char* id : {"a", "b", "a"}) {
    mooncake += fmt::format(
        R"({{"timestamp":0,"input_length":5,"output_length":2,"session_id":"{}"}})", id);
    single += fmt::format(
        R"({{"arrival_time_ns":0,"input_toks":5,"output_toks":2,"session_id":"{}"}})", id);
    blocks += fmt::format(
        R"({{"arrival_s":0,"prompt_tokens":5,"output_tokens":2,"conversation_id":"{}"}})", id);
    for (std::string* text : {&mooncake, &single, &blocks}) *text += "\n";
  }
  EXPECT_EQ(SessionsOf(mooncake), wanted);
  EXPECT_EQ(SessionsOf(single), wanted);
  EXPECT_EQ(SessionsOf(blocks), wanted);
  EXPECT_EQ(SessionsOf("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
                       "Total tokens,Log Type\n"
                       "0,x,1,GPT-4,5,2,7,API log\n1,y,1,GPT-4,5,2,7,API log\n"
                       "2,x,1,GPT-4,5,2,7,API log\n"),
            wanted);
}

// A session of several lines keeps its number; one without a name has its own.
TEST(SessionTest, LinesOfOneSessionIdAreOneSession) {
  const std::string turns = R"("sub_requests":[{"input_toks":1,"output_toks":1}]})";
  EXPECT_EQ(SessionsOf(R"({"session_id":"a","arrival_time_ns":0,)" + turns + "\n" +
                       R"({"arrival_time_ns":1,)" + turns + "\n" +
                       R"({"session_id":"a","arrival_time_ns":2,)" + turns + "\n"),
            (std::vector<std::uint64_t>{1, 2, 1}));
}

TEST(AzureTraceTest, ReadsTheMultimodalTraceOf2025) {
  EXPECT_EQ(ParseText("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
                      "2024-10-10 00:00:00.009930,2,2162,5\n"),
            std::vector{Plain(Duration{0}, 2162, 5)});
}

TEST(VidurTraceTest, ReadsArrivalsAndLengths) {
  const auto reader = OpenText(ReadText(SamplePath("vidur.csv")));
  EXPECT_TRUE(reader->has_arrivals());
  EXPECT_EQ(ReadAll(*reader),
            (std::vector{Plain(Duration{0}, 100, 10), Plain(milliseconds(500), 200, 20),
                         Plain(milliseconds(1000), 300, 30)}));
}

TEST(VidurTraceTest, KnowsWhenAFileHasLengthsAlone) {
  const auto reader = OpenText(ReadText(SamplePath("vidur_lengths.csv")));
  EXPECT_FALSE(reader->has_arrivals());
  EXPECT_EQ(ReadAll(*reader),
            (std::vector{Plain(Duration{0}, 100, 10), Plain(Duration{0}, 200, 20)}));
}

TEST(ShareGptTraceTest, ReadsLengthPairs) {
  const auto reader = OpenText(ReadText(SamplePath("sharegpt.csv")), "sharegpt");
  EXPECT_FALSE(reader->has_arrivals());
  EXPECT_EQ(ReadAll(*reader).at(1), Plain(Duration{0}, 18, 243));
}

TEST(BurstGptTraceTest, SkipsAndCountsFailures) {
  const auto reader = OpenText(ReadText(SamplePath("burstgpt.csv")));
  EXPECT_EQ(ReadAll(*reader), (std::vector{Plain(std::chrono::seconds(5), 472, 18),
                                           Plain(std::chrono::seconds(45), 1087, 230),
                                           Plain(std::chrono::seconds(118), 417, 276)}));
  EXPECT_EQ(reader->counts().requests, 3);
  EXPECT_EQ(reader->counts().skipped_failures, 1);
}

TEST(BurstGptTraceTest, RefusesOrShortensFailuresWhereAsked) {
  const std::string text = ReadText(SamplePath("burstgpt.csv"));
  TraceReadOptions options;
  options.failed_rows = FailedRows::kRefuse;
  EXPECT_THAT(ErrorOf(text, "", options), HasSubstr("trace:4: Response tokens: found '0'"));
  options.failed_rows = FailedRows::kOneToken;
  EXPECT_EQ(ParseText(text, "", options).at(2), Plain(std::chrono::seconds(60), 300, 1));
}

TEST(BurstGptTraceTest, FiltersByModel) {
  TraceReadOptions options;
  options.filters = {{"Model", "GPT-4"}};
  const auto reader = OpenText(ReadText(SamplePath("burstgpt.csv")), "", options);
  EXPECT_EQ(ReadAll(*reader).size(), 1u);
  EXPECT_EQ(reader->counts().filtered, 2);
}

TEST(ApexPlusTraceTest, NamesTheGroupsWhenArrivalsRestart) {
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("apexplus.csv"))),
              AllOf(HasSubstr("trace:4: arrival_s: found '1.0'"),
                    HasSubstr("tokenizer=llama,workload=creation,poisson_rate=0.25"),
                    HasSubstr("tokenizer=llama,workload=lmsys,poisson_rate=0.50"),
                    HasSubstr("tokenizer=mistral,workload=lmsys,poisson_rate=0.5")));
}

TEST(ApexPlusTraceTest, FilterSelectsAGroupAndComparesNumbersByValue) {
  TraceReadOptions options;
  options.filters = {{"tokenizer", "llama"}, {"workload", "lmsys"}, {"poisson_rate", "0.5"}};
  EXPECT_EQ(ParseText(ReadText(SamplePath("apexplus.csv")), "", options),
            (std::vector{Plain(std::chrono::seconds(1), 20, 30)}));
}

TEST(ApexPlusTraceTest, FallingArrivalsWithinAGroupAreAnOrdinaryError) {
  EXPECT_THAT(ErrorOf("tokenizer,workload,poisson_rate,arrival_s,prompt_tokens,output_tokens\n"
                      "a,b,1,2.0,1,1\na,b,1,1.5,1,1\n"),
              AllOf(HasSubstr("trace:3: arrival_s: found '1.5'"), HasSubstr("row before")));
}

TEST(FilterTest, RefusesUnknownColumnsAndValues) {
  TraceReadOptions options;
  options.filters = {{"colour", "red"}};
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("apexplus.csv")), "", options),
              AllOf(HasSubstr("filter: found 'colour'"), HasSubstr("tokenizer, workload")));
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("mooncake.jsonl")), "", options), HasSubstr("no filter"));
  options.filters = {{"tokenizer", "qwen"}};
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("apexplus.csv")), "", options),
              HasSubstr("none of 4 rows passes"));
}

TEST(TwinTraceTest, ReadsEveryColumn) {
  const auto requests = ParseText(ReadText(SamplePath("twin.csv")));
  ASSERT_EQ(requests.size(), 3u);
  TracedRequest second = Plain(milliseconds(1500), 48, 16);
  second.predicted_output_tokens = 12;
  second.priority = -3;
  second.tenant = 2;
  second.session = 77;
  second.prefix_chunk_tokens = 16;
  second.prefix_chunks = {UINT64_MAX, 5, 6};
  EXPECT_EQ(requests[1], second);
  EXPECT_EQ(requests[0].max_output_tokens, 20);
}

TEST(TwinTraceTest, ColumnsComeInAnyOrderAndMayBeEmpty) {
  TracedRequest expected = Plain(std::chrono::seconds(2), 5, 6);
  expected.tenant = 9;
  EXPECT_EQ(ParseText("tenant,output_tokens,max_output_tokens,arrival_s,prompt_tokens\n9,6,,2,5\n"),
            std::vector{expected});
}

// Vidur's lengths have the header of ShareGPT's; the intended clock is read where it is named.
TEST(RecognitionTest, TellsTheFormatsApartByTheirFirstLine) {
  const std::set<std::string> told_by_name = {"request_log_intended", "sharegpt"};
  for (const std::string& file : SampleFiles()) {
    const std::string format = SampleFormat(file);
    EXPECT_EQ(FormatToName(file), told_by_name.contains(format) ? format : "") << file;
  }
}

TEST(RecognitionTest, EveryFormatHasASample) {
  std::set<std::string> formats;
  for (const TraceFormat& format : TraceFormats()) formats.insert(format.name);
  std::set<std::string> sampled;
  for (const std::string& file : SampleFiles()) sampled.insert(SampleFormat(file));
  EXPECT_EQ(sampled, formats);
}

TEST(RecognitionTest, AnExplicitFormatOverrides) {
  EXPECT_THAT(ErrorOf(ReadText(SamplePath("azure_2023.csv")), "vidur"),
              HasSubstr("trace:1: header: found 'TIMESTAMP'"));
  EXPECT_THROW(ParseText("x", "no-such-format"), InputError);
}

TEST(RecognitionTest, PointsServeGenFilesToTheirGenerator) {
  EXPECT_THAT(ErrorOf("client,window_start_s,rate_rps,iat_cv,dist,shape,scale_s\n"),
              HasSubstr("workload.servegen"));
}

TEST(GzipTest, IsRecognisedByItsMagicBytes) {
  const std::string text = ReadText(SamplePath("vidur.csv"));
  EXPECT_EQ(ParseText(Gzip(text)), ParseText(text));
}

TEST(GzipTest, ReadsConcatenatedMembers) {
  const std::string text = ReadText(SamplePath("vidur.csv"));
  EXPECT_EQ(ParseText(Gzip(text.substr(0, 60)) + Gzip(text.substr(60))), ParseText(text));
}

TEST(GzipTest, TruncationAtAnyByteIsRefused) {
  const std::string packed = Gzip(ReadText(SamplePath("twin.csv")));
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_THAT(ErrorOf(packed.substr(0, size)), HasSubstr("trace:")) << size;
  }
}

TEST(GzipTest, DamageAndTrailingBytesAreRefused) {
  std::string packed = Gzip(ReadText(SamplePath("twin.csv")));
  EXPECT_THAT(ErrorOf(packed + "junk"), HasSubstr("gzip"));
  packed[packed.size() - 6] ^= 1;  // within the checksum
  EXPECT_THAT(ErrorOf(packed), HasSubstr("damaged gzip data"));
}

TEST(LineReaderTest, SkipsAByteOrderMarkAndEmptyLines) {
  EXPECT_EQ(ParseText("\xEF\xBB\xBFprompt_tokens,output_tokens\n\n1,2\r\n\n"),
            std::vector{Plain(Duration{0}, 1, 2)});
}

TEST(LineReaderTest, SaysWhenTheLastLineHasNoEnd) {
  auto reader = OpenText("prompt_tokens,output_tokens\n1,2");
  ReadAll(*reader);
  EXPECT_TRUE(reader->lines().ended_without_newline());
}

TEST(LineReaderTest, RefusesALineWithoutEnd) {
  EXPECT_THAT(ErrorOf(std::string(LineReader::kLineBytesMax + 2, 'x')),
              HasSubstr("at most 16 MiB"));
}

TEST(LineReaderTest, RefusesFilesThatCannotBeOpened) {
  EXPECT_THROW(OpenTrace("/no/such/file"), InputError);
  EXPECT_THROW(OpenTrace(std::string(TWIN_SOURCE_DIR)), InputError);
}

struct Refusal {
  std::string name;
  std::string text;
  std::string message;
};
class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesFileLineFieldAndWhatIsAllowed) {
  EXPECT_THAT(ErrorOf(GetParam().text), HasSubstr(GetParam().message));
}

const std::string kAzure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string kSeconds = "arrival_s,prompt_tokens,output_tokens\n";
const std::string kTwin =
    "arrival_ns,prompt_tokens,output_tokens,max_output_tokens,prefix_chunk_tokens,prefix_chunks\n";
const std::string kMooncake =
    R"({"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]})";

INSTANTIATE_TEST_SUITE_P(
    Csv, RefusalTest,
    ::testing::Values(
        Refusal{"Empty", "", "trace:1: header: the file is empty"},
        Refusal{"HeaderOnly", kSeconds, "trace:1: no request in the file"},
        Refusal{"Binary",
                std::string("\x7f"
                            "ELF\0\1\2",
                            7),
                "found '\\x7fELF\\x00\\x01\\x02'"},
        Refusal{"UnknownHeader", "a,b\n1,2\n", "trace:1: header: found 'a,b'"},
        Refusal{"MissingColumn", "arrival_s,prompt_tokens\n0,1\n",
                "trace:1: header: column 'output_tokens' is missing"},
        Refusal{"ExtraColumn", "arrival_s,prompt_tokens,output_tokens,colour\n",
                "trace:1: header: found 'colour'"},
        Refusal{"ColumnTwice", "arrival_s,prompt_tokens,output_tokens,prompt_tokens\n",
                "trace:1: header: found 'prompt_tokens'; allowed: each column once"},
        Refusal{"TruncatedLine", kSeconds + "0,1,1\n1.0,30\n",
                "trace:3: output_tokens: found '1.0,30'"},
        Refusal{"ExtraValue", kSeconds + "0,1,1,7\n", "trace:2: column 4: found '7'"},
        Refusal{"Negative", kSeconds + "0,-5,1\n", "trace:2: prompt_tokens: found '-5'"},
        Refusal{"ZeroPrompt", kSeconds + "0,0,1\n", "trace:2: prompt_tokens: found '0'"},
        Refusal{"ZeroOutput", kSeconds + "0,1,0\n", "trace:2: output_tokens: found '0'"},
        Refusal{"NotANumber", kSeconds + "0,nan,1\n", "trace:2: prompt_tokens: found 'nan'"},
        Refusal{"Fraction", kSeconds + "0,1.5,1\n", "trace:2: prompt_tokens: found '1.5'"},
        Refusal{"Huge", kSeconds + "0,1,2147483648\n",
                "trace:2: output_tokens: found '2147483648'"},
        Refusal{"Enormous", kSeconds + "0,1,99999999999999999999\n",
                "allowed: an integer from 1 to 1073741823"},
        Refusal{"Blank", kSeconds + "0, 1,1\n", "trace:2: prompt_tokens: found ' 1'"},
        Refusal{"EmptyValue", kSeconds + "0,,1\n", "trace:2: prompt_tokens: found ''"},
        Refusal{"NanTime", kSeconds + "nan,1,1\n", "trace:2: arrival_s: found 'nan'"},
        Refusal{"InfTime", kSeconds + "inf,1,1\n", "trace:2: arrival_s: found 'inf'"},
        Refusal{"NegativeTime", kSeconds + "-1,1,1\n", "trace:2: arrival_s: found '-1'"},
        Refusal{"LateTime", kSeconds + "1e300,1,1\n", "trace:2: arrival_s: found '1e300'"},
        Refusal{"TimeGoesBack", kSeconds + "5,1,1\n4.9,1,1\n", "trace:3: arrival_s: found '4.9'"},
        Refusal{"BadDate", kAzure + "2023-02-29 00:00:00,1,1\n", "trace:2: TIMESTAMP: found"},
        Refusal{"DateGoesBack", kAzure + "2023-02-02 00:00:01,1,1\n2023-02-02 00:00:00,1,1\n",
                "trace:3: TIMESTAMP: found"},
        Refusal{"SecondsAsDate", kAzure + "12.5,1,1\n", "allowed: a time like"},
        Refusal{"MaxBelowOutput", kTwin + "0,1,5,4,,\n", "trace:2: max_output_tokens: found '4'"},
        Refusal{"ChunksWithoutSize", kTwin + "0,1,5,5,0,7\n",
                "trace:2: prefix_chunk_tokens: found '0'"},
        Refusal{"TooManyChunks", kTwin + "0,1,5,5,6,7;8\n",
                "trace:2: prefix_chunks: found '2 chunks"},
        Refusal{"EmptyChunk", kTwin + "0,99,5,5,6,7;;8\n", "trace:2: prefix_chunks: found ''"},
        Refusal{"LongValueIsShortened", kSeconds + "0," + std::string(5000, '7') + ",1\n",
                "777...'"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Jsonl, RefusalTest,
    ::testing::Values(
        Refusal{"Cut", kMooncake + "\n" + kMooncake.substr(0, 40) + "\n",
                "trace:2: byte 41: found"},
        Refusal{"NoObject", kMooncake + "\n[1]\n", "trace:2: line: found '[1]'"},
        Refusal{"MissingKey", kMooncake + "\n{\"timestamp\":0,\"input_length\":5}\n",
                "trace:2: output_length: missing"},
        Refusal{"WrongType",
                kMooncake + "\n{\"timestamp\":0,\"input_length\":\"5\",\"output_length\":1}\n",
                "trace:2: input_length: found '\"5\"'"},
        Refusal{"Real", R"({"timestamp":0,"input_length":5.5,"output_length":1})",
                "trace:1: input_length: found '5.5'"},
        Refusal{"Negative", R"({"timestamp":-1,"input_length":5,"output_length":1})",
                "trace:1: timestamp: found '-1'"},
        Refusal{"Infinite", R"({"timestamp":1e999,"input_length":5,"output_length":1})",
                "trace:1: "},
        Refusal{"NotANumber", R"({"timestamp":NaN,"input_length":5,"output_length":1})",
                "trace:1: "},
        Refusal{"ChunkType",
                R"({"timestamp":0,"input_length":5,"output_length":1,"hash_ids":["a"]})",
                "trace:1: hash_ids: found '\"a\"'"},
        Refusal{"ChunksNoArray",
                R"({"timestamp":0,"input_length":5,"output_length":1,"hash_ids":3})",
                "trace:1: hash_ids: found '3'"},
        Refusal{"TooManyChunks",
                R"({"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1,2]})",
                "trace:1: hash_ids: found '2 chunks"},
        Refusal{"TimeGoesBack",
                R"({"timestamp":5,"input_length":5,"output_length":1})"
                "\n"
                R"({"timestamp":4,"input_length":5,"output_length":1})",
                "trace:2: timestamp: found '4'"}),
    [](const auto& test) { return test.param.name; });

// A layout without keys of content once read the member with the empty name as token ids.
TEST(JsonlTraceTest, KeysThatTheFormatLacksAreNotLookedUp) {
  const JsonlLayout layouts[] = {{.arrival_key = "t",
                                  .prompt_key = "in",
                                  .output_key = "out",
                                  .prefix_chunk_tokens = 1,
                                  .turns_key = "turns"}};
  const auto read = [&](std::string text) {
    auto lines = std::make_unique<LineReader>("trace", Decompress(MemoryBytes(std::move(text))));
    return ReadAll(*OpenJsonlTrace(std::move(lines), layouts, {}));
  };
  EXPECT_EQ(read(R"({"t":1,"in":3,"out":2,"":[4,5,6]})"),
            std::vector{Plain(std::chrono::seconds(1), 3, 2)});
  TracedRequest turn = Plain(std::chrono::seconds(1), 3, 2);
  turn.session = 1;
  EXPECT_EQ(read(R"({"t":1,"turns":[{"in":3,"out":2,"":9},{"in":3,"out":2}]})"),
            (std::vector{turn, turn}));
}

TEST(JsonlTraceTest, ReadsOverUnknownKeys) {
  EXPECT_EQ(ParseText(R"({"timestamp":1,"input_length":5,"output_length":2,"colour":{"a":[1]}})"),
            std::vector{Plain(milliseconds(1), 5, 2)});
}

}  // namespace
}  // namespace twin
