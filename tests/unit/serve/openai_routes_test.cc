// OpenAI's routes in vLLM's form: what clients send and what they get, over a real socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/serve/served_front.h"

namespace twin::serve {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Completions, AnswersWithTheTextAndWhatItTook) {
  ServedFront served;
  const Json answer =
      served.Post("/v1/completions", R"({"model":"model-a","prompt":"hello","max_tokens":8})");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "model-a");
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["stop_reason"].is_null());
  // "<s>hello"; three letters and the end token.
  EXPECT_EQ(answer["usage"], Json::parse(R"({"prompt_tokens":6,"total_tokens":10,
      "completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}})"));
}

TEST(Completions, MaxTokensIs16UnlessAsked) {
  ServedFront served;
  served.service.answer = std::string(100, 'z');
  const Json answer = served.Post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(answer["choices"][0]["text"], std::string(16, 'z'));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

TEST(Completions, StreamsOneEventPerTokenAndTheReasonWithTheLast) {
  ServedFront served;
  served.service.answer = "ab";
  const auto events = served.Stream(
      "/v1/completions",
      R"({"prompt":"x","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}})");
  ASSERT_THAT(events, SizeIs(4));
  const Json first = Json::parse(events[0]);
  EXPECT_EQ(first["choices"][0]["text"], "a");
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(first.contains("usage"));
  EXPECT_FALSE(first.contains("system_fingerprint"));
  const Json last = Json::parse(events[1]);
  EXPECT_EQ(last["choices"][0]["text"], "b");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(last["system_fingerprint"], "twinserve-1.0");
  const Json usage = Json::parse(events[2]);
  EXPECT_THAT(usage["choices"], SizeIs(0));
  EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[3], "[DONE]");
}

TEST(Completions, EndTokenHasAnEventWithoutText) {
  ServedFront served;
  served.service.answer = "a";
  const auto events = served.Stream("/v1/completions", R"({"prompt":"x","stream":true})");
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["text"], "");
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["finish_reason"], "stop");
}

TEST(Completions, NeverSendsHalfACharacter) {
  ServedFront served;
  served.service.answer = "\xC3\xA9!";  // é!
  const auto events = served.Stream("/v1/completions", R"({"prompt":"x","stream":true})");
  ASSERT_THAT(events, SizeIs(5));
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["text"], "");
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["text"], "\xC3\xA9");
  EXPECT_EQ(Json::parse(events[2])["choices"][0]["text"], "!");
}

TEST(Completions, DropsAnIncompleteCharacterAtTheEndAsVllmDoes) {
  ServedFront served;
  served.service.answer = "a\xC3";
  EXPECT_EQ(served.Post("/v1/completions", R"({"prompt":"x"})")["choices"][0]["text"], "a");
}

TEST(Completions, StopTextEndsTheAnswerAndTheRequest) {
  ServedFront served;
  served.service.holds = true;
  RawClient client(served.port());
  client.Send(PostText("/v1/completions",
                       R"({"prompt":"x","max_tokens":50,"stream":true,"stop":["STOP","zz"]})"));
  ASSERT_TRUE(Eventually([&] { return served.service.count() == 1; }));
  served.service.Give(run::GenerationId{0}, "oneSTOPtwo");
  const auto events = ServedFront::EventsOf(BodyOfChunks(client.ReadUntil("0\r\n\r\n")));
  std::string text;
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json choice = Json::parse(event)["choices"][0];
    text += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) {
      EXPECT_EQ(choice["finish_reason"], "stop");
      EXPECT_EQ(choice["stop_reason"], "STOP");
    }
  }
  EXPECT_EQ(text, "one");
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_TRUE(served.service.WasCancelled(0, run::CancelReason::kStopString));
}

TEST(Completions, CountsNoTokenBehindTheStopText) {
  ServedFront served;
  served.service.answer = "abSTOPxyz";
  const Json answer =
      served.Post("/v1/completions", R"({"prompt":"x","max_tokens":50,"stop":"STOP"})");
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
  const Json kept = served.Post("/v1/completions", R"({"prompt":"x","max_tokens":50,
      "stop":"STOP","include_stop_str_in_output":true})");
  EXPECT_EQ(kept["choices"][0]["text"], "abSTOP");
}

TEST(Completions, SearchesNoStopTextInTheFirstMinTokens) {
  ServedFront served;
  served.service.answer = "aXbXc";
  const Json answer =
      served.Post("/v1/completions", R"({"prompt":"x","max_tokens":50,"stop":"X","min_tokens":2})");
  EXPECT_EQ(answer["choices"][0]["text"], "aXb");
}

TEST(Completions, PromptsAndAnswersAreNumberedInOrder) {
  ServedFront served;
  const Json answer =
      served.Post("/v1/completions", R"({"prompt":["a","bc"],"n":2,"seed":5,"echo":true})");
  ASSERT_THAT(answer["choices"], SizeIs(4));
  const char* const texts[] = {"aabc", "aabc", "bcabc", "bcabc"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], texts[i]);
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2 + 3);  // each prompt once, each with "<s>"
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 2 + 2);
  EXPECT_EQ(served.service.requests[1].sampling.seed, 6u);
}

TEST(Completions, TakesTokenIds) {
  ServedFront served;
  served.Post("/v1/completions", R"({"prompt":[104,105]})");
  served.Post("/v1/completions", R"({"prompt":[[1],[2,3]]})");
  ASSERT_THAT(served.service.requests, SizeIs(3));
  EXPECT_THAT(served.service.requests[0].prompt, ElementsAre(104, 105));
  EXPECT_THAT(served.service.requests[1].prompt, ElementsAre(1));
  EXPECT_THAT(served.service.requests[2].prompt, ElementsAre(2, 3));
}

TEST(Completions, TellsLogprobsWithOffsetsOfTheirTokens) {
  ServedFront served;
  served.service.answer = "ab";
  const Json answer =
      served.Post("/v1/completions", R"({"prompt":"x","max_tokens":2,"logprobs":1})");
  const Json& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["a","b"])"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1]"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[-0.5,-0.5]"));
  EXPECT_EQ(logprobs["top_logprobs"][0], Json::parse(R"({"a":-0.5})"));
}

TEST(Completions, FieldsWithoutEffectAreNamed) {
  ServedFront served;
  const std::string response = served.Ask(
      PostText("/v1/completions",
               R"({"prompt":"x","temperature":0.7,"user":"u","new_field":1,"logit_bias":{}})"));
  EXPECT_EQ(StatusOf(response), 200);
  EXPECT_THAT(response, HasSubstr("X-Twinserve-Warning: temperature,user,new_field\r\n"));
}

TEST(Completions, KeepsTheClientsRequestId) {
  ServedFront served;
  const std::string response =
      served.Ask(PostText("/v1/completions", R"({"prompt":"x"})", "X-Request-Id: my-id\r\n"));
  EXPECT_THAT(response, HasSubstr(R"("id":"cmpl-my-id")"));
  EXPECT_THAT(response, HasSubstr("X-Request-Id: my-id\r\n"));
  const std::string other =
      served.Ask(PostText("/v1/completions", R"({"prompt":"x"})", "X-Request-Id: a b\r\n"));
  EXPECT_THAT(other, testing::Not(HasSubstr("a b")));
}

TEST(Chat, StreamsTheRoleTogetherWithTheFirstToken) {
  ServedFront served;
  served.service.answer = "hi";
  const auto events =
      served.Stream("/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":"q"}],"max_tokens":2,"stream":true})");
  ASSERT_THAT(events, SizeIs(4));
  const Json role = Json::parse(events[0]);
  EXPECT_EQ(role["object"], "chat.completion.chunk");
  EXPECT_EQ(role["choices"][0]["delta"], Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["delta"], Json::parse(R"({"content":"h"})"));
  const Json last = Json::parse(events[2]);
  EXPECT_EQ(last["choices"][0]["delta"]["content"], "i");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
}

TEST(Chat, RendersMessagesAndFillsTheRestOfTheModelsLength) {
  ServedFront served;
  const Json answer = served.Post("/v1/chat/completions", R"({"messages":[
      {"role":"developer","content":"be brief"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "abc");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  const auto& request = served.service.requests[0];
  EXPECT_EQ(std::string(request.prompt.begin(), request.prompt.end()),
            "<system>be brief<user>a|b|<assistant>");  // and no "<s>": the template writes it
  EXPECT_EQ(request.max_tokens, 1000 - static_cast<int>(request.prompt.size()));
}

TEST(Chat, TellsLogprobsWithBytes) {
  ServedFront served;
  served.service.answer = "a";
  const Json answer = served.Post("/v1/chat/completions", R"({"messages":[
      {"role":"user","content":"q"}],"max_tokens":1,"logprobs":true,"top_logprobs":2})");
  const Json& token = answer["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "a");
  EXPECT_EQ(token["bytes"], Json::parse("[97]"));
  EXPECT_THAT(token["top_logprobs"], SizeIs(2));
}

TEST(Chat, TellsWhatTheTemplateRefuses) {
  ServedFront served;
  const Json answer =
      served.Post("/v1/chat/completions", R"({"messages":[{"role":"refused","content":"q"}]})");
  EXPECT_EQ(answer["error"]["message"], "chat template: no such role");
  EXPECT_EQ(answer["error"]["code"], 400);
}

}  // namespace
}  // namespace twin::serve
