// CSV as spreadsheets and data frames write it, and files that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/words.h"

namespace twin {
namespace {

using std::string_view_literals::operator""sv;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text, std::string_view format = "",
                    const TraceReadOptions& options = {}) {
  try {
    ParseText(text, format, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TracedRequest Sent(Duration arrival, std::int32_t prompt, std::int32_t output) {
  TracedRequest request;
  request.arrival = TimePoint{arrival};
  request.prompt_tokens = prompt;
  request.output_tokens = request.max_output_tokens = output;
  return request;
}

TEST(CsvTraceTest, AQuoteWithoutItsPairIsNamedByItsLine) {
  const std::string header = "send_us,in_tokens,out_tokens,prompt\n";
  EXPECT_THAT(ErrorOf(header + "1,2,3,\"hello\n4,5,6,world\n"),
              HasSubstr("trace:2: row: found '1,2,3,\"hello\\x0a4,5,6,world', whose quote is never "
                        "closed"));
  EXPECT_THAT(ErrorOf(header + "1,2,3,\"hello\"world\n"),
              HasSubstr("trace:2: row: found '\"hello\"world'; allowed: nothing behind the closing "
                        "quote"));
}

TEST(CsvTraceTest, AHeaderThatIsAnOpenQuoteIsRefused) {
  EXPECT_THAT(ErrorOf("\"arrival_s\n"), HasSubstr("trace:1: header: found '\"arrival_s'"));
  EXPECT_THAT(ErrorOf("\"arrival_s\n", "twin"), HasSubstr("whose quote is never closed"));
}

// S9. pandas, R and Excel quote like this.
TEST(CsvTraceTest, ReadsWhatSpreadsheetsAndDataFramesWrite) {
  const std::vector<TracedRequest> two{Sent({}, 10, 5),
                                       Sent(std::chrono::milliseconds(1500), 20, 6)};
  EXPECT_EQ(ParseText("\"in_tokens\",\"out_tokens\",\"arrival_s\",\"prompt\"\n"
                      "10,5,0,\"hello, world\"\n20,6,1.5,\"two\nlines\"\n"),
            two);
  EXPECT_EQ(ParseText("in_tokens;out_tokens;arrival_s\r\n10.0;5.0;0\r\n20.0;6;1.5\r\n"), two);
  EXPECT_EQ(
      ParseText("\"arrival_s\"\t\"prompt_tokens\"\t\"output_tokens\"\n0\t10\t5\n1.5\t2e+01\t6\n"),
      two);
  // With the row numbers of pandas and of R.
  EXPECT_EQ(ParseText(",arrival_s,prompt_tokens,output_tokens\n0,0,10,5\n1,1.5,20,6\n"), two);
  EXPECT_EQ(ParseText("\"\",\"arrival_s\",\"prompt_tokens\",\"output_tokens\"\n"
                      "\"1\",0,10,5\n\"2\",1.5,20,6\n"),
            two);
  EXPECT_EQ(ParseText("\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n"
                      "\"2023-11-16 18:15:46.68\",10,5\n\"2023-11-16 18:15:48.18\",20,6\n"),
            two);
}

TEST(CsvTraceTest, OptionalFieldsMayHoldAnyWordForNothing) {
  EXPECT_EQ(ParseText("arrival_s,prompt_tokens,output_tokens,max_output_tokens,tenant\n"
                      "0,10,5,NaN,None\n1.5,20,6,<NA>,null\n"),
            (std::vector{Sent({}, 10, 5), Sent(std::chrono::milliseconds(1500), 20, 6)}));
}

// Beyond 2^53 a number with an exponent may stand for another integer.
TEST(CsvTraceTest, WholeNumbersAreRefusedWhereTheyAreNotExact) {
  const std::string header = "arrival_ns,prompt_tokens,output_tokens,session\n";
  EXPECT_THAT(ErrorOf(header + "1.7e+18,1,1,0\n"), HasSubstr("arrival_ns: found '1.7e+18'"));
  EXPECT_THAT(ErrorOf(header + "0,10.5,1,0\n"), HasSubstr("prompt_tokens: found '10.5'"));
  EXPECT_THAT(ErrorOf(header + "0,1,1,-1.0\n"), HasSubstr("session: found '-1.0'"));
}

TEST(FileKindTest, FilesThatAreNoTextAreNamed) {
  const std::pair<std::string_view, std::string_view> kinds[] = {
      {"PAR1\x15\x04\x15"sv, "a Parquet file"},
      {"\xFF\xFE"
       "a\0r\0r\0"sv,
       "text in UTF-16"},
      {"a\0r\0r\0i\0"sv, "text in UTF-16"},
      {"\0a\0r\0r\0i"sv, "text in UTF-16"},
      {"PK\3\4\x14"sv, "Excel workbooks"},
      {"\x28\xB5\x2F\xFD\x04"sv, "a zstd file"},
      {"version https://git-lfs.github.com/spec/v1\n"sv, "a Git LFS pointer"}};
  for (const auto& [text, name] : kinds) {
    EXPECT_THAT(ErrorOf(std::string(text)), HasSubstr("trace:1: encoding: found "));
    EXPECT_THAT(ErrorOf(std::string(text)), HasSubstr(std::string(name)));
    EXPECT_THAT(ErrorOf(std::string(text)), HasSubstr("allowed: text in UTF-8"));
  }
  EXPECT_THAT(ErrorOf("{\"timestamp\":1,\"input_length\":5,\"output_length\":2,\"a\":\"\xE9\"}"),
              HasSubstr("allowed: text in UTF-8"));
}

// Each name was compared with each other one: 10 s.
TEST(CsvTraceTest, AHeaderOfAHundredThousandColumnsTakesNoTime) {
  std::string header = "send_us,in_tokens,out_tokens";
  std::string row = "1,2,3";
  for (int i = 0; i < 100'000; ++i) {
    header += ",c" + std::to_string(i);
    row += ",0";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ParseText(header + "\n" + row + "\n").size(), 1u);
  EXPECT_THAT(ErrorOf(header + ",c7\n"),
              HasSubstr("header: found 'c7'; allowed: each column once"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(WordsTest, NothingHasManySpellings) {
  for (const char* word : {"", " ", "nan", "NaN", "NAN", "None", "null", "NULL", "NA", "N/A",
                           "#N/A", "<NA>", "[]", "{}", "\"\"", "''", "NaT", "-", "-nan"}) {
    EXPECT_TRUE(MeansNothing(word)) << word;
    EXPECT_FALSE(NamesError(word)) << word;
    EXPECT_EQ(FindOutcome(word), Outcome::kNothing) << word;
  }
  for (const char* word : {"0", "1", "no", "x", "nano", "[1]"}) EXPECT_FALSE(MeansNothing(word));
}

TEST(WordsTest, StatusesAreCodesAndWords) {
  for (const char* word : {"200", "200.0", "2e+02", "201", "204.0", "0", "0.0", "ok", "OK",
                           "Success", "completed", "COMPLETED", "True", "TRUE", "200 OK",
                           "HTTP 200", "HTTP/1.1 200 OK", "Status.COMPLETED", "finished_stopped"}) {
    EXPECT_EQ(FindOutcome(word), Outcome::kSuccess) << word;
  }
  for (const char* word :
       {"408", "500.0", "1", "-1", "404 Not Found", "timeout", "timed_out", "Timed-Out", "False",
        "FAILED", "error", "cancelled", "RequestStatus.FAILED"}) {
    EXPECT_EQ(FindOutcome(word), Outcome::kFailure) << word;
  }
  for (const char* word : {"blue", "200.5", "okey-dokey", "2xx"}) {
    EXPECT_EQ(FindOutcome(word), Outcome::kUnknown) << word;
  }
}

TEST(WordsTest, AnyOtherTextOfAnErrorIsAnError) {
  for (const char* word : {"0", "0.0", "False", "no", "ok", "200", "No error"}) {
    EXPECT_FALSE(NamesError(word)) << word;
  }
  for (const char* word : {"1", "True", "408", "connection reset", "{'code': 5}", "timeout"}) {
    EXPECT_TRUE(NamesError(word)) << word;
  }
}

}  // namespace
}  // namespace twin
