// The front as a service: errors, keys, overload, clients that leave or lag, the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/byte_tokenizer.h"
#include "tests/unit/serve/served_front.h"

namespace twin::serve {
namespace {

using Json = nlohmann::ordered_json;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(FrontErrors, HaveOpenAisFormWithStatusTypeAndField) {
  ServedFront served;
  struct Case {
    std::string request;
    int status;
    const char* type;
    const char* param;  // null: none
  };
  const auto completion = [](const std::string& body) { return PostText("/v1/completions", body); };
  const Case cases[] = {
      {completion("{"), 400, "Bad Request", nullptr},
      {completion("[]"), 400, "Bad Request", nullptr},
      {completion("{\"prompt\":\"\xFF\"}"), 400, "Bad Request", nullptr},
      {completion(R"({"prompt":7})"), 400, "Bad Request", "prompt"},
      {completion(R"({})"), 400, "BadRequestError", "prompt"},
      {completion(R"({"prompt":"x","n":0})"), 400, "BadRequestError", "n"},
      {completion(R"({"prompt":"x","max_tokens":"many"})"), 400, "Bad Request", "max_tokens"},
      {completion(R"({"prompt":"x","max_tokens":1001})"), 400, "BadRequestError", "max_tokens"},
      {completion(R"({"prompt":")" + std::string(999, 'x') + R"("})"), 400, "BadRequestError",
       "prompt"},
      {completion(R"({"prompt":[258]})"), 400, "BadRequestError", "prompt"},
      {completion(R"({"prompt":"x","stream_options":{}})"), 400, "BadRequestError",
       "stream_options"},
      {completion(R"({"prompt":"x","priority":1})"), 400, "BadRequestError", "priority"},
      {completion(R"({"prompt":"x","prompt_logprobs":1})"), 400, "BadRequestError",
       "prompt_logprobs"},
      {completion(R"({"prompt":"x","model":"other"})"), 404, "NotFoundError", "model"},
      {PostText("/v1/embeddings", "{}"), 404, "Not Found", nullptr},
      {GetText("/v1/completions"), 405, "Method Not Allowed", nullptr},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
       "Content-Length: 2\r\n\r\n{}",
       415, "Unsupported Media Type", nullptr},
  };
  for (const Case& c : cases) {
    const std::string response = served.Ask(c.request);
    EXPECT_EQ(StatusOf(response), c.status) << c.request;
    const Json error = Json::parse(BodyOf(response))["error"];
    EXPECT_EQ(error["code"], c.status) << c.request;
    EXPECT_EQ(error["type"], c.type) << c.request;
    EXPECT_EQ(error["param"], c.param == nullptr ? Json() : Json(c.param)) << c.request;
    EXPECT_FALSE(error["message"].get<std::string>().empty());
  }
  EXPECT_THAT(served.service.requests, SizeIs(0));
}

TEST(FrontErrors, DoNotAmplifyWhatTheyEcho) {
  ServedFront served;
  const std::string response = served.Ask(
      PostText("/v1/completions", R"({"prompt":"x","n":")" + std::string(100'000, 'n') + R"("})"));
  EXPECT_EQ(StatusOf(response), 400);
  EXPECT_LT(response.size(), 1500u);
}

TEST(FrontKeys, GuardPostRoutesAndV1) {
  FrontOptions options;
  options.api_key = "secret";
  ServedFront served(options);
  const std::string body = R"({"prompt":"x"})";
  EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", body))), 401);
  EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", body, "Authorization: Bearer no\r\n"))),
            401);
  EXPECT_EQ(StatusOf(served.Ask(
                PostText("/v1/completions", body, "Authorization: Bearer secretsecret\r\n"))),
            401);
  EXPECT_EQ(
      StatusOf(served.Ask(PostText("/v1/completions", body, "Authorization: bearer secret\r\n"))),
      200);
  EXPECT_EQ(StatusOf(served.Ask(GetText("/v1/models"))), 401);
  EXPECT_EQ(StatusOf(served.Ask(PostText("/generate", R"({"inputs":"x"})"))), 401);
  EXPECT_EQ(StatusOf(served.Ask(GetText("/health"))), 200);
  EXPECT_EQ(StatusOf(served.Ask(GetText("/metrics"))), 200);
}

TEST(FrontKeys, RecordNeedsTheAdminKeyAndIsClosedWithoutOne) {
  ServedFront closed;
  const std::string path = "/v1/twinserve/record";
  EXPECT_EQ(StatusOf(closed.Ask(GetText(path))), 401);
  EXPECT_EQ(StatusOf(closed.Ask(GetText(path, "Authorization: Bearer \r\n"))), 401);
  FrontOptions options;
  options.api_key = "secret";
  options.admin_key = "admin";
  ServedFront served(options);
  EXPECT_EQ(StatusOf(served.Ask(GetText(path, "Authorization: Bearer secret\r\n"))), 401);
  EXPECT_EQ(BodyOf(served.Ask(GetText(path, "Authorization: Bearer admin\r\n"))), "recorded");
}

// A page of another site that resolves its own name to the loopback address.
TEST(FrontHost, OnLoopbackAnswersToItsOwnNamesOnly) {
  ServedFront served;
  const auto status = [&](const std::string& host) {
    return StatusOf(served.Ask("GET /health HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  };
  EXPECT_EQ(status("localhost:8000"), 200);
  EXPECT_EQ(status("127.0.0.1:8000"), 200);
  EXPECT_EQ(status("[::1]:8000"), 200);
  EXPECT_EQ(status("evil.example"), 421);
  EXPECT_EQ(status("localhost.evil.example"), 421);
}

TEST(FrontOverload, Answers429WithATimeToRetry) {
  ServedFront served;
  served.service.room = 0;
  const std::string response = served.Ask(PostText("/v1/completions", R"({"prompt":"x"})"));
  EXPECT_EQ(StatusOf(response), 429);
  EXPECT_THAT(response, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_EQ(Json::parse(BodyOf(response))["error"]["type"], "RateLimitError");
  EXPECT_EQ(
      Json::parse(BodyOf(served.Ask(PostText("/generate", R"({"inputs":"x"})"))))["error_type"],
      "overloaded");
  FrontOptions options;
  options.overload_status = 503;
  ServedFront as_vllm(options);
  as_vllm.service.room = 0;
  EXPECT_EQ(StatusOf(as_vllm.Ask(PostText("/v1/completions", R"({"prompt":"x"})"))), 503);
}

// No answer to a request may go on if another one was refused.
TEST(FrontOverload, CancelsTheAnswersThatHadRoom) {
  ServedFront served;
  served.service.holds = true;
  served.service.room = 2;
  EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", R"({"prompt":"x","n":3})"))), 429);
  EXPECT_TRUE(served.service.WasCancelled(0, run::CancelReason::kClientLeft));
  EXPECT_TRUE(served.service.WasCancelled(1, run::CancelReason::kClientLeft));
}

TEST(FrontClients, LeavingCancelsEveryAnswerOfTheRequest) {
  ServedFront served;
  served.service.holds = true;
  RawClient client(served.port());
  client.Send(PostText("/v1/completions", R"({"prompt":"x","n":2,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 2; }));
  served.service.Give(run::GenerationId{0}, "a");
  client.ReadUntil("\"text\":\"a\"");
  client.Reset();
  EXPECT_TRUE(Eventually([&] {
    return served.service.WasCancelled(0, run::CancelReason::kClientLeft) &&
           served.service.WasCancelled(1, run::CancelReason::kClientLeft);
  }));
  EXPECT_TRUE(Eventually([&] { return !served.log().empty(); }));
  EXPECT_THAT(served.log(), Contains(HasSubstr("end=client_left")));
}

// A front with small buffers, and a client that has read nothing yet of its stream, all tokens of
// which the service has told.
class SlowReader {
 public:
  static constexpr std::size_t kTokens = 9000;  // "t" each

  explicit SlowReader(FrontOptions options) : served_(WithSmallBuffers(std::move(options))) {
    served_.service.served.max_model_length = 100'000;
    served_.service.holds = true;
    client_.emplace(served_.port(), 4096);
    client_->Send(PostText("/v1/completions", R"({"prompt":"x","max_tokens":9000,"stream":true})",
                           "X-Request-Id: r-1\r\n"));
    EXPECT_TRUE(Eventually([&] { return served_.service.count() == 1; }));
    const std::string half(kTokens / 2, 't');
    served_.service.Give(run::GenerationId{0}, half);
    // The server's only thread answers this after it has sent of the first half what the socket
    // takes. The second half must wait.
    EXPECT_EQ(StatusOf(served_.Ask(GetText("/health"))), 200);
    served_.service.Give(run::GenerationId{0}, half);
    served_.service.End(run::GenerationId{0}, run::EndReason::kLength);
  }

  std::string ReadAll() { return client_->ReadUntil("\r\n0\r\n\r\n"); }

 private:
  static FrontOptions WithSmallBuffers(FrontOptions options) {
    options.threads = 1;
    options.http.unwritten_bytes = 4096;
    options.http.send_buffer_bytes = 4096;
    return options;
  }

  ServedFront served_;
  std::optional<RawClient> client_;
};

// Tokens wait and join while the client does not read; all of the text arrives.
TEST(FrontClients, SlowReadersGetAllOfTheTextInFewerEvents) {
  SlowReader reader({});
  const auto events = ServedFront::EventsOf(BodyOfChunks(reader.ReadAll()));
  std::string received;
  for (const std::string& event : events) {
    if (event != "[DONE]") received += Json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(received, std::string(SlowReader::kTokens, 't'));
  EXPECT_LT(events.size(), SlowReader::kTokens);
}

// The file of --send-times.
class SentLog {
 public:
  FrontOptions Options() {
    FrontOptions options;
    options.on_sent = [this](const SentTokens& tokens) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(tokens.request, "r-1");
      EXPECT_EQ(tokens.sent, TimePoint(std::chrono::seconds(1)));  // the service's clock
      due_.insert(due_.end(), tokens.due.begin(), tokens.due.end());
    };
    return options;
  }
  std::vector<TimePoint> due() const {
    const std::lock_guard lock(mutex_);
    return due_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<TimePoint> due_;
};

std::vector<TimePoint> FirstMilliseconds(std::size_t count) {
  std::vector<TimePoint> times;
  for (std::size_t i = 1; i <= count; ++i) times.emplace_back(std::chrono::milliseconds(i));
  return times;
}

TEST(FrontSendTimes, TellOfEachTokenOfAStreamAndOfNoWholeAnswer) {
  SentLog log;
  ServedFront served(log.Options());
  const std::string field = "X-Request-Id: r-1\r\n";
  for (const char* body :
       {R"({"prompt":"x","max_tokens":3})", R"({"prompt":"x","max_tokens":3,"stream":true})"}) {
    EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", body, field))), 200);
  }
  EXPECT_TRUE(Eventually([&] { return log.due().size() >= 3; }));
  EXPECT_EQ(log.due(), FirstMilliseconds(3));
}

// The number after a line's name and labels.
std::int64_t CountIn(const std::string& page, const std::string& histogram) {
  const std::size_t line = page.find("\n" + histogram + "_count{");
  if (line == std::string::npos) return -1;
  return std::stoll(page.substr(page.find("} ", line) + 2));
}

// Notes of tokens wait until the tokens have left, but not beyond the end of an answer.
TEST(FrontMetricsPage, HasAllOutputsOfAnAnswerWhoseEndTheClientHasSeen) {
  std::atomic<std::size_t> sent = 0;
  FrontOptions options;
  options.on_sent = [&](const SentTokens& tokens) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the client would be faster
    sent += tokens.due.size();
  };
  ServedFront served(options);
  for (const char* body :
       {R"({"prompt":"x","max_tokens":3})", R"({"prompt":"x","max_tokens":3,"stream":true})"}) {
    EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", body))), 200);
  }
  EXPECT_EQ(sent, 3u);  // of the stream
  const std::string page = BodyOf(served.Ask(GetText("/metrics")));
  EXPECT_EQ(CountIn(page, "vllm:time_to_first_token_seconds"), 2);
  EXPECT_EQ(CountIn(page, "vllm:inter_token_latency_seconds"), 4);
  EXPECT_EQ(CountIn(page, "twinserve:front_send_seconds"), 3);
}

TEST(FrontSendTimes, TokensThatWaitForTheirClientCountWhenTheSocketHasThem) {
  SentLog log;
  SlowReader reader(log.Options());
  EXPECT_LT(log.due().size(), SlowReader::kTokens);
  reader.ReadAll();
  EXPECT_TRUE(Eventually([&] { return log.due().size() >= SlowReader::kTokens; }));
  EXPECT_EQ(log.due(), FirstMilliseconds(SlowReader::kTokens));
}

TEST(FrontClients, ThatFallTooFarBehindAreCancelled) {
  FrontOptions options;
  options.http.unwritten_bytes = 4096;
  options.http.waiting_output_bytes = 100'000;
  ServedFront served(options);
  served.service.served.max_model_length = 1'000'000;
  served.service.holds = true;
  served.service.ends_cancelled = false;  // not amid Give(): a service tells tokens in one thread
  RawClient client(served.port(), 4096);
  client.Send(PostText("/v1/completions", R"({"prompt":"x","max_tokens":900000,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 1; }));
  EXPECT_TRUE(Eventually([&] {
    served.service.Give(run::GenerationId{0}, std::string(2000, 't'));
    return served.service.WasCancelled(0, run::CancelReason::kClientLeft);
  }));
  served.service.End(run::GenerationId{0}, run::EndReason::kCancelled);
}

TEST(FrontEnd, ServiceThatEndsTellsItsClients) {
  ServedFront served;
  served.service.holds = true;
  RawClient stream(served.port());
  stream.Send(PostText("/v1/completions", R"({"prompt":"x","stream":true})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 1; }));
  RawClient whole(served.port());
  whole.Send(PostText("/v1/completions", R"({"prompt":"x"})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 2; }));
  served.service.Give(run::GenerationId{0}, "a");
  stream.ReadUntil("\"text\":\"a\"");
  served.service.End(run::GenerationId{0}, run::EndReason::kAborted);
  served.service.End(run::GenerationId{1}, run::EndReason::kAborted);
  EXPECT_THAT(stream.ReadUntil("0\r\n\r\n"), HasSubstr(R"(data: {"error":{"message")"));
  EXPECT_EQ(StatusOf(whole.ReadResponse()), 503);
}

TEST(FrontEnd, DrainingRefusesWithoutEndingWhatRuns) {
  ServedFront served;
  served.service.holds = true;
  RawClient running(served.port());
  running.Send(PostText("/v1/completions", R"({"prompt":"x","max_tokens":1})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 1; }));
  RawClient open(served.port());
  open.Send("POST /v1/completions HTTP/1.1\r\n");
  served.service.Drain();
  RawClient late(served.port());
  late.Send(GetText("/health"));
  EXPECT_EQ(StatusOf(late.ReadResponse()), 503);
  open.Send(PostText("/v1/completions", R"({"prompt":"x"})").substr(31));
  EXPECT_EQ(StatusOf(open.ReadResponse()), 503);
  served.service.Give(run::GenerationId{0}, "a");
  served.service.End(run::GenerationId{0}, run::EndReason::kLength);
  EXPECT_EQ(StatusOf(running.ReadResponse()), 200);
}

TEST(FrontMetricsRoute, CountsRequestsTokensAndIgnoredFields) {
  ServedFront served;
  served.Post("/v1/completions", R"({"prompt":"x","max_tokens":2,"user":"u"})");
  const std::string metrics = served.Ask(GetText("/metrics"));
  EXPECT_THAT(metrics, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  for (const char* line :
       {"vllm:request_success_total{engine=\"0\",model_name=\"model-a\","
        "finished_reason=\"length\"} 1.0\n",
        "twinserve:ignored_fields_total{engine=\"0\",model_name=\"model-a\",field=\"user\"} 1.0\n",
        "vllm:request_prompt_tokens_bucket{engine=\"0\",model_name=\"model-a\",le=\"1.0\"} 0\n",
        "vllm:request_prompt_tokens_bucket{engine=\"0\",model_name=\"model-a\",le=\"2.0\"} 1\n",
        "vllm:cache_config_info{block_size=\"16\",engine=\"0\",model_name=\"model-a\","
        "num_gpu_blocks=\"100\"} 1.0\n",
        "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 1.0\n"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
  EXPECT_EQ(StatusOf(served.Ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")), 200);
}

TEST(FrontPage, LoadsNothingFromElsewhere) {
  ServedFront served;
  const std::string page = served.Ask(GetText("/"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none';"));
  EXPECT_THAT(page, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(page, HasSubstr("<title>twinserve</title>"));
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("http://"), HasSubstr("https://"))));
  EXPECT_EQ(StatusOf(served.Ask(GetText("/live.js"))), 200);
  EXPECT_EQ(StatusOf(served.Ask(GetText("/live.css"))), 200);
  const Json state = Json::parse(BodyOf(served.Ask(GetText("/live.json"))));
  EXPECT_EQ(state["policy"], "vllm_v1");
  EXPECT_EQ(state["config"], "name: \"test\"\n");
}

// Holds up whoever tokenizes a long text until it is opened.
class GatedTokenizer final : public ByteTokenizer {
 public:
  static constexpr std::size_t kLong = 100'000;

  std::vector<text::TokenId> Encode(std::string_view text, bool add_special_tokens) const override {
    if (text.size() >= kLong) {
      ++begun_;
      while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ByteTokenizer::Encode(text, add_special_tokens);
  }
  void Open() { open_ = true; }
  [[nodiscard]] int begun() const { return begun_; }

 private:
  mutable std::atomic<int> begun_ = 0;
  std::atomic<bool> open_ = false;
};

// Six bodies of 16 MB, whose clients had left, held up completions for 17 s.
TEST(FrontClients, LongTextsOfThoseWhoLeftHoldUpNobody) {
  constexpr int kTexts = 8;
  GatedTokenizer tokenizer;
  ServedFront served({}, &tokenizer);
  const std::string text(400'000, 'x');
  const std::string request = PostText("/tokenize", R"({"prompt":")" + text + R"("})");
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kTexts; ++i) {
      clients.push_back(std::make_unique<RawClient>(served.port()));
      EXPECT_TRUE(clients.back()->Send(request));
    }
    EXPECT_TRUE(Eventually([&] { return tokenizer.begun() >= 1; }));
    for (const auto& client : clients) client->Reset();
  }
  EXPECT_EQ(StatusOf(served.Ask(PostText("/v1/completions", R"({"prompt":"a","max_tokens":1})"))),
            200);
  EXPECT_EQ(StatusOf(served.Ask(PostText("/tokenize", R"({"prompt":"a"})"))), 200);
  EXPECT_TRUE(Eventually([&] { return served.log().size() >= kTexts; }));
  tokenizer.Open();
  EXPECT_EQ(StatusOf(served.Ask(PostText("/tokenize", R"({"prompt":")" + text + R"("})"))), 200);
  // Most were dropped; a text that was being taken up when its client left is not.
  EXPECT_LT(tokenizer.begun(), kTexts);
}

}  // namespace
}  // namespace twin::serve
