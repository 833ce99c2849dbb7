// TGI's routes, as its clients use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/serve/served_front.h"

namespace twin::serve {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::SizeIs;

TEST(TgiGenerate, AnswersWithTheTextAndDetailsIfAsked) {
  ServedFront served;
  EXPECT_EQ(served.Post("/generate", R"({"inputs":"x"})"),
            Json::parse(R"({"generated_text":"abc"})"));
  const Json answer =
      served.Post("/generate", R"({"inputs":"x","parameters":{"details":true,"seed":7}})");
  const Json& details = answer["details"];
  EXPECT_EQ(details["finish_reason"], "eos_token");
  EXPECT_EQ(details["generated_tokens"], 4);
  EXPECT_EQ(details["seed"], 7);
  EXPECT_EQ(details["tokens"][0],
            Json::parse(R"({"id":97,"text":"a","logprob":-0.5,"special":false})"));
}

TEST(TgiGenerate, RootAnswersWithAList) {
  ServedFront served;
  EXPECT_EQ(served.Post("/", R"({"inputs":"x"})"), Json::parse(R"([{"generated_text":"abc"}])"));
}

TEST(TgiGenerate, StreamsOneEventPerTokenWithoutDone) {
  ServedFront served;
  served.service.answer = "ab";
  const std::string body = R"({"inputs":"x","parameters":{"max_new_tokens":2,"details":true}})";
  const auto events = served.Stream("/generate_stream", body);
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0], R"({"index":1,"token":{"id":97,"text":"a","logprob":-0.5,"special":false},)"
                       R"("generated_text":null,"details":null})");
  const Json last = Json::parse(events[1]);
  EXPECT_EQ(last["generated_text"], "ab");
  EXPECT_EQ(last["details"], Json::parse(R"({"finish_reason":"length","generated_tokens":2,
      "seed":null,"input_length":2})"));
}

// The opposite of OpenAI's routes in both.
TEST(TgiGenerate, KeepsTheStopTextAndShowsIncompleteCharacters) {
  ServedFront served;
  served.service.answer = "aENDb";
  const Json stopped =
      served.Post("/generate", R"({"inputs":"x","parameters":{"stop":["END"],"details":true}})");
  EXPECT_EQ(stopped["generated_text"], "aEND");
  EXPECT_EQ(stopped["details"]["finish_reason"], "stop_sequence");
  served.service.answer = "a\xC3";
  EXPECT_EQ(served.Post("/generate", R"({"inputs":"x"})")["generated_text"], "a\xEF\xBF\xBD");
}

TEST(TgiGenerate, FullTextBeginsWithThePrompt) {
  ServedFront served;
  const Json answer =
      served.Post("/generate", R"({"inputs":"x:","parameters":{"return_full_text":true}})");
  EXPECT_EQ(answer["generated_text"], "x:abc");
}

TEST(TgiGenerate, RefusesInItsOwnForm) {
  ServedFront served;
  for (const char* body :
       {R"({"inputs":""})", R"({"parameters":{}})", R"({"inputs":3})",
        R"({"inputs":"x","parameters":{"max_new_tokens":0}})",
        R"({"inputs":"x","parameters":{"max_new_tokens":5000}})",
        R"({"inputs":"x","parameters":{"top_p":1.0}})",
        R"({"inputs":"x","parameters":{"temperature":0}})",
        R"({"inputs":"x","parameters":{"best_of":2}})",
        R"({"inputs":"x","parameters":{"grammar":{"type":"json","value":{}}}})"}) {
    const std::string response = served.Ask(PostText("/generate", body));
    EXPECT_EQ(StatusOf(response), 422) << body;
    const Json error = Json::parse(BodyOf(response));
    EXPECT_EQ(error["error_type"], "validation") << body;
    EXPECT_TRUE(error["error"].is_string()) << body;
  }
}

TEST(TgiGenerate, KeepsTheLastTokensOfATruncatedPrompt) {
  ServedFront served;
  served.Post("/generate", R"({"inputs":"abcdef","parameters":{"truncate":2}})");
  EXPECT_THAT(served.service.requests[0].prompt, testing::ElementsAre('e', 'f'));
}

TEST(TgiInfo, TellsTheLimits) {
  ServedFront served;
  const Json info = Json::parse(BodyOf(served.Ask(GetText("/info"))));
  EXPECT_EQ(info["model_id"], "model-a");
  EXPECT_EQ(info["max_total_tokens"], 1000);
  EXPECT_EQ(info["max_stop_sequences"], 4);
}

TEST(Tokenize, AnswersBothProtocolsOnOnePath) {
  ServedFront served;
  EXPECT_EQ(served.Post("/tokenize", R"({"prompt":"hi"})"),
            Json::parse(R"({"count":3,"max_model_len":1000,"tokens":[256,104,105],
                            "token_strs":null})"));
  EXPECT_EQ(served.Post("/tokenize",
                        R"({"messages":[{"role":"user","content":"q"}],"return_token_strs":true,
                            "add_generation_prompt":false})")["token_strs"],
            Json::parse(R"(["<","u","s","e","r",">","q"])"));
  EXPECT_EQ(served.Post("/tokenize", R"({"inputs":"hi"})")[1],
            Json::parse(R"({"id":104,"text":"h","start":0,"stop":1})"));
  EXPECT_EQ(served.Post("/detokenize", R"({"tokens":[104,105]})"),
            Json::parse(R"({"prompt":"hi"})"));
  EXPECT_EQ(served.Post("/detokenize", R"({"tokens":[]})"), Json::parse(R"({"prompt":""})"));
  EXPECT_EQ(served.Post("/detokenize", R"({"tokens":[300]})")["error"]["code"], 400);
}

}  // namespace
}  // namespace twin::serve
