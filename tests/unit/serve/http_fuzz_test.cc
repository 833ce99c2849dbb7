// Changes HTTP messages at random and reads them: nothing may crash or hang, what is read does not
// depend on how the bytes were split, and no request is larger than its limits. The same with
// changed bodies for each POST route of a server. TWIN_FUZZ_RUNS sets the number of changes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/serve/http/request_reader.h"
#include "core/random.h"
#include "tests/unit/serve/mutated_text.h"
#include "tests/unit/serve/served_front.h"

namespace twin::serve {
namespace {

using State = RequestReader::State;
using testing::FuzzRuns;
using testing::kJsonPieces;
using testing::Mutated;
using testing::Pick;
using testing::Upto;

// Some messages stay as they are.
constexpr int kChangesMin = 0;

const std::string kMessages[] = {
    "GET /v1/models?a=b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcdGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
    "chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n"
    "Trailer: v\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
    "Content-Length: 1\r\n\r\nx",
    "GET http://b/x?y HTTP/1.0\r\n\r\n",
};
const std::string kParts[] = {"\r\n",
                              "\n",
                              "\r",
                              "\r\n\r\n",
                              ":",
                              " ",
                              "\t",
                              "0\r\n\r\n",
                              "Host: b\r\n",
                              "Content-Length: 3\r\n",
                              "Content-Length: 18446744073709551616\r\n",
                              "Transfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: gzip, chunked\r\n",
                              "ffffffffffffffff\r\n",
                              "HTTP/1.1",
                              std::string(1, '\0'),
                              "\xFF",
                              std::string(300, 'a')};

// But for chunk_line_bytes, which bounds what waits to be read: a line that comes at once and whole
// may be longer.
HttpLimits SmallLimits() {
  HttpLimits limits;
  limits.header_bytes = 500;
  limits.fields = 8;
  limits.target_bytes = 100;
  limits.body_bytes = 64;
  return limits;
}

// Each request with all that is known of it, and the status of a refusal at the end. `random` null:
// all bytes at once.
std::string ReadAll(std::string_view bytes, const HttpLimits& limits, Random* random) {
  RequestReader reader(limits);
  std::string read;
  while (!bytes.empty()) {
    const std::size_t part =
        random == nullptr ? bytes.size() : std::max<std::size_t>(1, Upto(12, *random));
    reader.Append(bytes.substr(0, part));
    bytes.remove_prefix(std::min(part, bytes.size()));
    while (reader.Advance() == State::kComplete) {
      const HttpRequest request = reader.Take();
      EXPECT_LE(request.body.size(), limits.body_bytes);
      EXPECT_LE(request.fields.size(), limits.fields);
      EXPECT_LE(request.path.size() + request.query.size(), limits.target_bytes);
      read += request.method + " " + request.path + "?" + request.query + "\n";
      for (const HttpField& field : request.fields) read += field.name + "=" + field.value + "\n";
      read += request.body + "\n";
    }
    if (reader.state() == State::kFailed) {
      EXPECT_FALSE(reader.failure().message.empty());
      return read + std::to_string(reader.failure().status);
    }
  }
  return read;
}

TEST(HttpFuzz, ChangedMessagesReadTheSameHoweverTheyAreSplit) {
  Random random(15, "http_fuzz");
  const HttpLimits limits = SmallLimits();
  int accepted = 0;
  const std::int64_t runs = FuzzRuns(20'000);
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::string bytes = Mutated(Pick(kMessages, random), kParts, kChangesMin, random) +
                              Mutated(Pick(kMessages, random), kParts, kChangesMin, random);
    const std::string whole = ReadAll(bytes, limits, nullptr);
    ASSERT_EQ(ReadAll(bytes, limits, &random), whole) << bytes;
    if (whole.find('\n') != std::string::npos) ++accepted;
  }
  // Else so much is changed that only the first line is tested.
  EXPECT_GT(accepted, runs / 10);
}

struct Route {
  std::string path;
  std::string body;
};
const Route kRoutes[] = {
    {"/v1/completions", R"({"prompt":"ab","max_tokens":2,"stream":true,"stop":["x"],"n":2,)"
                        R"("temperature":1,"logprobs":1})"},
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2})"},
    {"/generate", R"({"inputs":"x","parameters":{"max_new_tokens":2,"details":true}})"},
    {"/generate_stream", R"({"inputs":"x","parameters":{"max_new_tokens":2}})"},
    {"/", R"({"inputs":"x","parameters":{"stop":["."]},"stream":false})"},
    {"/tokenize", R"({"prompt":"hello","add_special_tokens":true,"return_token_strs":true})"},
    {"/tokenize", R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true})"},
    {"/tokenize", R"({"inputs":"h\u00e4llo"})"},
    {"/detokenize", R"({"tokens":[104,105,257]})"},
};

// One connection for all requests: an answer that is too long or too short would spoil the next.
TEST(HttpFuzz, ChangedBodiesAreAnsweredOnEveryRoute) {
  FrontOptions options;
  options.http.requests_per_connection = 1'000'000'000;
  ServedFront served(options);
  served.service.room = SIZE_MAX;
  served.service.answer = "abc";
  RawClient client(served.port());
  Random random(15, "route_fuzz");
  int answered = 0;
  const std::int64_t runs = FuzzRuns(3000);
  for (std::int64_t i = 0; i < runs; ++i) {
    const Route& route = kRoutes[Upto(std::size(kRoutes) - 1, random)];
    const std::string body = Mutated(route.body, kJsonPieces, kChangesMin, random);
    SCOPED_TRACE(route.path + " " + body);
    ASSERT_TRUE(client.Send(PostText(route.path, body)));
    std::string answer = client.ReadResponse();
    const int status = StatusOf(answer);
    ASSERT_TRUE(status >= 200 && status < 500) << answer;
    if (answer.find("Transfer-Encoding: chunked") != std::string::npos) {
      ASSERT_TRUE(client.ReadUntil("\r\n0\r\n\r\n").ends_with("\r\n0\r\n\r\n"));
    } else {
      ASSERT_TRUE(nlohmann::json::accept(BodyOf(answer))) << answer;
    }
    answered += status == 200 ? 1 : 0;
  }
  EXPECT_GT(answered, runs / 10);
}

}  // namespace
}  // namespace twin::serve
