// Which bytes make a request, and which are refused with what status. The cases follow RFC 9112 and
// the ways in which two parsers of one connection can disagree (request smuggling).
#include "apps/serve/http/request_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twin::serve {
namespace {

using State = RequestReader::State;

// The outcome of a byte string: each request as "METHOD path[?query] body;", and the status of a
// refusal or "..." for an incomplete request at the end.
std::string Read(const std::string& bytes, std::size_t step, const HttpLimits& limits = {}) {
  RequestReader reader(limits);
  std::string outcome;
  for (std::size_t i = 0; i < bytes.size(); i += step) {
    reader.Append(std::string_view(bytes).substr(i, step));
    while (reader.Advance() == State::kComplete) {
      const HttpRequest request = reader.Take();
      outcome += request.method + " " + request.path;
      if (!request.query.empty()) outcome += "?" + request.query;
      if (!request.body.empty()) outcome += " " + request.body;
      outcome += ";";
    }
    if (reader.state() == State::kFailed) {
      return outcome + std::to_string(reader.failure().status);
    }
  }
  if (reader.state() != State::kIdle) outcome += "...";
  return outcome;
}

struct ReaderCase {
  const char* name;
  std::string bytes;
  std::string outcome;
};

std::string Get(const std::string& fields) { return "GET / HTTP/1.1\r\n" + fields + "\r\n"; }
std::string Post(const std::string& fields, const std::string& rest = "") {
  return "POST /p HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + rest;
}

std::string Fields(std::size_t count) {
  std::string fields = "Host: a\r\n";
  for (std::size_t i = 1; i < count; ++i) fields += "a: b\r\n";
  return fields;
}

const std::string kNext = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";

std::vector<ReaderCase> WellFormed() {
  return {
      {"simple", Get("Host: a\r\n"), "GET /;"},
      {"query", "GET /v1/models?a=b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /v1/models?a=b;"},
      {"length", Post("Content-Length: 2\r\n", "ab") + kNext, "POST /p ab;GET /next;"},
      {"length_zero", Post("Content-Length: 0\r\n") + kNext, "POST /p;GET /next;"},
      {"chunks", Post("Transfer-Encoding: chunked\r\n", "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n") + kNext,
       "POST /p abc;GET /next;"},
      {"encoding_upper_case", Post("Transfer-Encoding: CHUNKED\r\n", "0\r\n\r\n"), "POST /p;"},
      {"chunk_extension", Post("Transfer-Encoding: chunked\r\n", "2;a=b\r\nab\r\n0\r\n\r\n"),
       "POST /p ab;"},
      {"trailers", Post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\nX: y\r\n\r\n") + kNext,
       "POST /p a;GET /next;"},
      {"pipelined", kNext + kNext, "GET /next;GET /next;"},
      {"empty_lines_in_front", "\r\n\r\n" + kNext, "GET /next;"},
      {"absolute_target", "GET http://b/x?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x?y;"},
      {"absolute_target_without_path", "GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /;"},
      {"old_version_without_host", "GET / HTTP/1.0\r\n\r\n", "GET /;"},
      {"body_of_get", Get("Host: a\r\nContent-Length: 1\r\n") + "x" + kNext, "GET / x;GET /next;"},
      {"hundred_fields", Get(Fields(100)), "GET /;"},
      {"incomplete", "GET / HTTP/1.1\r\nHost: a\r\n", "..."},
      {"body_incomplete", Post("Content-Length: 3\r\n", "ab"), "..."},
  };
}

std::vector<ReaderCase> Refused() {
  return {
      {"encoding_unknown", Post("Transfer-Encoding: xchunked\r\n", kNext), "501"},
      {"encoding_list", Post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "501"},
      {"encoding_twice",
       Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
      {"encoding_and_length",
       Post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
      {"encoding_in_old_version", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "400"},
      {"lengths_differ", Post("Content-Length: 2\r\nContent-Length: 3\r\n", "abc"), "400"},
      {"lengths_equal", Post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab"), "400"},
      {"length_list", Post("Content-Length: 2, 2\r\n", "ab"), "400"},
      {"length_signed", Post("Content-Length: +2\r\n", "ab"), "400"},
      {"length_negative", Post("Content-Length: -1\r\n"), "400"},
      {"length_beyond_64_bits", Post("Content-Length: 18446744073709551616\r\n"), "400"},
      {"length_missing", Post(""), "411"},
      {"host_missing", Get("A: b\r\n"), "400"},
      {"host_twice", Get("Host: a\r\nHost: b\r\n"), "400"},
      {"folded_line", Get("Host: a\r\nX: y\r\n z\r\n"), "400"},
      {"folded_first_field", Get(" Host: a\r\n"), "400"},
      {"line_feed_alone", "GET / HTTP/1.1\nHost: a\n\n", "400"},
      {"carriage_return_inside", Get("Host: a\rb\r\n"), "400"},
      {"zero_byte", Get(std::string("Host: a\0b\r\n", 11)), "400"},
      {"space_before_colon", Get("Host : a\r\n"), "400"},
      {"lower_case_method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
      {"no_method", " / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
      {"version_1_2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "400"},
      {"version_2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "400"},
      {"version_missing", "GET /\r\nHost: a\r\n\r\n", "400"},
      {"target_relative", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
      {"expectation", Post("Content-Length: 1\r\nExpect: tea\r\n", "a"), "417"},
      {"chunk_size_no_number", Post("Transfer-Encoding: chunked\r\n", "x\r\nab\r\n0\r\n\r\n"),
       "400"},
      {"chunk_size_too_small", Post("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"),
       "400"},
      {"chunk_size_overflows",
       Post("Transfer-Encoding: chunked\r\n", "10000000000000000\r\na\r\n0\r\n\r\n"), "400"},
      {"fields_101", Get(Fields(101)), "431"},
      {"tls", "\x16\x03\x01\x02\r\n\r\n", "400"},
  };
}

class ReaderTable : public testing::TestWithParam<ReaderCase> {};

// Bytes give the same requests in one piece and cut at every place.
TEST_P(ReaderTable, HoweverTheBytesAreSplit) {
  const ReaderCase& c = GetParam();
  EXPECT_EQ(Read(c.bytes, c.bytes.size()), c.outcome);
  EXPECT_EQ(Read(c.bytes, 1), c.outcome);
  for (std::size_t cut = 1; cut < c.bytes.size(); ++cut) {
    const HttpLimits limits;
    RequestReader reader(limits);
    std::string requests;
    const auto read = [&](std::string_view piece) {
      if (reader.state() == State::kFailed) return;
      reader.Append(piece);
      while (reader.Advance() == State::kComplete) requests += reader.Take().path + ";";
    };
    read(std::string_view(c.bytes).substr(0, cut));
    read(std::string_view(c.bytes).substr(cut));
    const bool failed = reader.state() == State::kFailed;
    ASSERT_EQ(failed, std::isdigit(static_cast<unsigned char>(c.outcome.back())) != 0)
        << "cut at " << cut;
  }
}

const auto kCaseName = [](const auto& parameter) { return std::string(parameter.param.name); };
INSTANTIATE_TEST_SUITE_P(WellFormed, ReaderTable, testing::ValuesIn(WellFormed()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Refused, ReaderTable, testing::ValuesIn(Refused()), kCaseName);

TEST(RequestReader, LimitsTheHeader) {
  HttpLimits limits;
  limits.header_bytes = 200;
  limits.target_bytes = 50;
  const std::string field = "Host: a\r\nX: " + std::string(150, 'x') + "\r\n";
  EXPECT_EQ(Read(Get(field), 1, limits), "GET /;");  // 16 + 164 + 2 bytes
  EXPECT_EQ(Read(Get(field + "Y: " + std::string(20, 'y') + "\r\n"), 1, limits), "431");
  const auto target = [](std::size_t bytes) {
    return "GET /" + std::string(bytes - 1, 't') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(Read(target(50), 1, limits), "GET /" + std::string(49, 't') + ";");
  EXPECT_EQ(Read(target(51), 1, limits), "414");
  EXPECT_EQ(Read("GET /" + std::string(300, 't'), 1, limits), "414");
}

TEST(RequestReader, LimitsTheBodyBeforeAndWhileItIsRead) {
  HttpLimits limits;
  limits.body_bytes = 4;
  limits.chunk_line_bytes = 32;
  EXPECT_EQ(Read(Post("Content-Length: 4\r\n", "abcd"), 1, limits), "POST /p abcd;");
  EXPECT_EQ(Read(Post("Content-Length: 5\r\n"), 1, limits), "413");
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(Read(Post(chunked, "2\r\nab\r\n3\r\ncde\r\n"), 1, limits), "413");
  EXPECT_EQ(Read(Post(chunked, "1;" + std::string(60, 'x')), 1, limits), "400");
  EXPECT_EQ(Read(Post(chunked, "0\r\nX: " + std::string(60, 'x')), 1, limits), "400");
}

TEST(RequestReader, AsksToContinueOnceAndOnlyForABodyThatHasNotBegun) {
  const HttpLimits limits;
  RequestReader reader(limits);
  reader.Append(Post("Content-Length: 2\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(reader.Advance(), State::kBody);
  EXPECT_TRUE(reader.TakeContinue());
  EXPECT_FALSE(reader.TakeContinue());
  reader.Append("ab");
  EXPECT_EQ(reader.Advance(), State::kComplete);
  EXPECT_EQ(reader.Take().body, "ab");

  reader.Append(Post("Content-Length: 2\r\nExpect: 100-continue\r\n", "a"));
  EXPECT_EQ(reader.Advance(), State::kBody);
  EXPECT_FALSE(reader.TakeContinue());
}

TEST(RequestReader, TellsWhetherTheConnectionMayStayOpen) {
  const HttpLimits limits;
  RequestReader reader(limits);
  const auto keeps = [&](const std::string& bytes) {
    reader.Append(bytes);
    EXPECT_EQ(reader.Advance(), State::kComplete);
    return reader.Take().keep_alive;
  };
  EXPECT_TRUE(keeps(Get("Host: a\r\n")));
  EXPECT_FALSE(keeps(Get("Host: a\r\nConnection: close\r\n")));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestReader, TrailersDoNotBecomeFields) {
  const HttpLimits limits;
  RequestReader reader(limits);
  reader.Append(Post("Transfer-Encoding: chunked\r\n", "0\r\nAuthorization: x\r\n\r\n"));
  EXPECT_EQ(reader.Advance(), State::kComplete);
  EXPECT_EQ(reader.Take().Field("authorization"), "");
}

}  // namespace
}  // namespace twin::serve
