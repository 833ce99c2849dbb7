#include "tests/support/hostile_clients.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <string_view>
#include <thread>

#include "tests/support/raw_client.h"

namespace twin {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // only failures take so long

std::int64_t CountOf(std::string_view part, const std::string& text) {
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++count;
  }
  return count;
}

// Bodies that must not be served, and bytes that are no request.
const std::string kBadBodies[] = {
    "{",
    "[]",
    R"({"prompt":7})",
    R"({"prompt":"x","n":0})",
    "{\"prompt\":\"\xFF\"}",
    R"({"prompt":"x","max_tokens":1000000})",
    R"({"messages":[{"role":"user","content":)" + std::string(200, '[') + "}]}",
    R"({"prompt":[1,2,"a"]})",
};
const std::string kBadBytes[] = {
    "GET\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
    "\x16\x03\x01 a TLS hello\r\n\r\n",
    "GET / HTTP/1.1\r\n" + std::string(20'000, 'a') + ": b\r\n\r\n",
};

template <std::size_t kCount>
const std::string& Pick(const std::string (&choices)[kCount], Random& random) {
  return choices[random.UniformInt(0, static_cast<std::int64_t>(kCount) - 1)];
}

}  // namespace

HostileClient::HostileClient(std::uint16_t port, std::uint64_t seed, ClientCounts& counts)
    : port_(port), random_(seed, "hostile_client"), counts_(counts) {}

void HostileClient::Act(const std::atomic<bool>& draining) {
  const std::int64_t intention = random_.UniformInt(0, 15);
  if (intention < 5) return Stream(draining);
  if (intention < 8) return Whole(draining);
  if (intention < 10) return Leave();
  if (intention < 11) return ReadSlowly();
  if (intention < 13) return SendNonsense();
  if (intention < 14) return SendHalf();
  Watch(draining);
}

std::string HostileClient::Completion(std::int64_t max_tokens, const std::string& more) {
  std::string body = R"({"prompt":[)";
  const std::int64_t length = random_.UniformInt(1, 30);
  for (std::int64_t i = 0; i < length; ++i) {
    fmt::format_to(std::back_inserter(body), "{}{}", i == 0 ? "" : ",",
                   random_.UniformInt(0, 9) * (i / 8 + 1));
  }
  fmt::format_to(std::back_inserter(body), R"(],"max_tokens":{}{}}})", max_tokens, more);
  return PostText("/v1/completions", body);
}

void HostileClient::Stream(const std::atomic<bool>& draining) {
  RawClient client(port_);
  const std::int64_t tokens = random_.UniformInt(1, 60);
  const std::int64_t answers = random_.UniformInt(1, 2);
  client.Send(Completion(tokens, fmt::format(R"(,"n":{},"temperature":1,"ignore_eos":true,)"
                                             R"("stream":true,"stream_options":)"
                                             R"({{"include_usage":true}})",
                                             answers)));
  std::string answer = client.ReadUntil("\r\n\r\n", kPatience);
  if (draining && StatusOf(answer) == 503) return;
  answer += client.ReadUntil("data: [DONE]\n\n\r\n0\r\n\r\n", kPatience);
  if (draining && (StatusOf(answer) != 200 || answer.find("\"error\"") != std::string::npos))
    return;
  EXPECT_EQ(StatusOf(answer), 200) << answer;
  // One event for each token, or fewer if this client was slow, and one for the usage.
  EXPECT_LE(CountOf("data: {", answer), answers * tokens + 1) << answer;
  EXPECT_EQ(CountOf(R"("finish_reason":"length")", answer), answers) << answer;
  EXPECT_EQ(CountOf(fmt::format(R"("completion_tokens":{},)", answers * tokens), answer), 1)
      << answer;
  ++counts_.whole_streams;
}

void HostileClient::Whole(const std::atomic<bool>& draining) {
  RawClient client(port_);
  const bool chat = random_.UniformInt(0, 1) == 0;
  const std::int64_t tokens = random_.UniformInt(1, 40);
  client.Send(chat ? PostText("/v1/chat/completions",
                              fmt::format(R"({{"messages":[{{"role":"user","content":"say {}"}}],)"
                                          R"("max_tokens":{},"logprobs":true,"top_logprobs":2,)"
                                          R"("stop":["zq","aa b"]}})",
                                          random_.UniformInt(0, 1000), tokens))
                   : PostText("/generate", fmt::format(R"({{"inputs":"tell me","parameters":)"
                                                       R"({{"max_new_tokens":{},"details":true,)"
                                                       R"("seed":{}}}}})",
                                                       tokens, random_.UniformInt(1, 5))));
  const std::string answer = client.ReadResponse(kPatience);
  if (draining && StatusOf(answer) != 200) return;
  EXPECT_EQ(StatusOf(answer), 200) << answer;
  const std::string body = BodyOf(answer);
  EXPECT_NE(body.find(chat ? R"("object":"chat.completion")" : R"("generated_text")"),
            std::string::npos)
      << answer;
  EXPECT_TRUE(body.ends_with('}')) << answer;
  ++counts_.whole_answers;
}

void HostileClient::Leave() {
  RawClient client(port_);
  client.Send(Completion(random_.UniformInt(30, 90), R"(,"ignore_eos":true,"stream":true)"));
  const std::int64_t events = random_.UniformInt(0, 5);
  // A refusal has no events to wait for.
  const bool served = events == 0 || StatusOf(client.ReadUntil("\r\n\r\n", kPatience)) == 200;
  for (std::int64_t i = 0; served && i < events; ++i) client.ReadUntil("data: {", kPatience);
  const std::int64_t way = random_.UniformInt(0, 2);
  if (way == 0) client.Reset();
  if (way == 1) client.CloseSendingSide();
  ++counts_.left;
}

// Has a small buffer and takes from it now and then.
void HostileClient::ReadSlowly() {
  RawClient client(port_, 2048);
  client.Send(Completion(90, R"(,"n":8,"temperature":1,"ignore_eos":true,"stream":true)"));
  ++counts_.slow;
  if (StatusOf(client.ReadUntil("\r\n\r\n", kPatience)) != 200) return;
  const std::int64_t pauses = random_.UniformInt(1, 10);
  for (std::int64_t i = 0; i < pauses && !client.ended(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    client.ReadUntil("data: {", kPatience);
  }
  if (random_.UniformInt(0, 1) == 0) client.ReadUntil("data: [DONE]", kPatience);
}

void HostileClient::SendNonsense() {
  RawClient client(port_);
  if (random_.UniformInt(0, 1) == 0) {
    const bool chat = random_.UniformInt(0, 1) == 0;
    client.Send(
        PostText(chat ? "/v1/chat/completions" : "/v1/completions", Pick(kBadBodies, random_)));
  } else {
    client.Send(Pick(kBadBytes, random_));
  }
  const int status = StatusOf(client.ReadUntil("\r\n\r\n", kPatience));
  // 503: the server drains, or has no room for the connection.
  EXPECT_TRUE((status >= 400 && status < 500) || status == 501 || status == 503) << status;
  ++counts_.refused;
}

void HostileClient::SendHalf() {
  RawClient client(port_);
  const std::string request = Completion(5, "");
  client.Send(request.substr(0, static_cast<std::size_t>(random_.UniformInt(
                                    1, static_cast<std::int64_t>(request.size()) - 1))));
  ++counts_.left;
}

void HostileClient::Watch(const std::atomic<bool>& draining) {
  RawClient client(port_);
  const std::string paths[] = {"/metrics", "/live.json",          "/", "/load", "/v1/models",
                               "/health",  "/v1/twinserve/record"};
  const std::string& path = Pick(paths, random_);
  client.Send(GetText(path, "Authorization: Bearer admin\r\n"));
  const std::string answer = client.ReadResponse(kPatience);
  EXPECT_TRUE(draining || StatusOf(answer) == 200) << path;
  ++counts_.watched;
}

}  // namespace twin
