// From the bytes of a body to a request: bounds, token ids, and what fields mean to which model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/json_body.h"

namespace twin::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

run::ServedModel Model() {
  run::ServedModel model;
  model.name = "model-a";
  model.vocabulary = 1000;
  model.max_model_length = 4096;
  model.emulated = true;
  model.policy = "vllm_v1";
  return model;
}

std::string ErrorOf(const std::string& text) {
  const auto body = ReadJsonBody(text);
  const auto* error = std::get_if<ApiError>(&body);
  return error == nullptr ? "" : error->message;
}

ParsedRequest Completion(const std::string& text, const run::ServedModel& model = Model()) {
  return ParseCompletion(std::get<JsonBody>(ReadJsonBody(text)), model);
}

std::string RefusalOf(const std::string& fields, const run::ServedModel& model) {
  const ParsedRequest parsed = Completion(R"({"prompt":"x",)" + fields + "}", model);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->param;
}

std::vector<std::string> WarningsOf(const std::string& fields, const run::ServedModel& model) {
  return std::get<ApiRequest>(Completion(R"({"prompt":"x",)" + fields + "}", model)).warnings;
}

TEST(JsonBody, BoundsTheDepth) {
  const auto nested = [](int depth) {
    return R"({"a":)" + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']') + "}";
  };
  EXPECT_EQ(ErrorOf(nested(63)), "");
  EXPECT_THAT(ErrorOf(nested(64)), HasSubstr("deeper than 64"));
  EXPECT_THAT(ErrorOf(std::string(200'000, '[')), HasSubstr("must be a JSON object"));
  EXPECT_THAT(ErrorOf(R"({"a":)" + std::string(200'000, '[')), HasSubstr("deeper than 64"));
}

TEST(JsonBody, BoundsTheKeysOfAnObject) {
  std::string text = "{";
  for (int i = 0; i <= 1024; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  text.back() = '}';
  EXPECT_THAT(ErrorOf(text), HasSubstr("more than 1024 keys"));
}

TEST(JsonBody, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "{\"a\":1,}", "{\"a\":NaN}", "{\"a\":1e999}", "{'a':1}",
                           "{\"a\":\"\\ud800\"}", "{\"a\":\"\xC0\xAF\"}", "{} {}", "null"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
}

TEST(JsonBody, ReadsIdsWithoutBuildingValuesOfThem) {
  auto body = std::get<JsonBody>(ReadJsonBody(R"({"prompt":[[1,2],[],[3]],"n":2})"));
  ASSERT_TRUE(body.id_lists.has_value());
  EXPECT_TRUE(body.nested);
  EXPECT_THAT(*body.id_lists, ElementsAre(ElementsAre(1, 2), IsEmpty(), ElementsAre(3)));
  EXPECT_EQ(body.fields["n"], 2);
  // Lists elsewhere are values.
  body = std::get<JsonBody>(ReadJsonBody(R"({"stop_token_ids":[1],"x":{"prompt":[7]}})"));
  EXPECT_FALSE(body.id_lists.has_value());
  EXPECT_EQ(body.fields["x"]["prompt"][0], 7);
}

TEST(JsonBody, TheLastOfTwoPromptsCounts) {
  auto body = std::get<JsonBody>(ReadJsonBody(R"({"prompt":[1],"prompt":"a"})"));
  EXPECT_FALSE(body.id_lists.has_value());
  body = std::get<JsonBody>(ReadJsonBody(R"({"prompt":"a","prompt":[2]})"));
  EXPECT_THAT(*body.id_lists, ElementsAre(ElementsAre(2)));
}

TEST(JsonBody, RefusesListsThatMixIdsAndOtherThings) {
  for (const char* prompt :
       {R"([1,"a"])", R"(["a",1])", "[1,[2]]", "[[1],2]", "[[1],\"a\"]", "[[[1]]]", "[1.5]", "[-1]",
        "[2147483648]", "[true]", "[null]", "[{}]", "[[\"a\"]]"}) {
    EXPECT_NE(ErrorOf(R"({"prompt":)" + std::string(prompt) + "}"), "") << prompt;
  }
}

// Puts every kind of JSON value in every place of a list of ids and of a list of such lists.
TEST(JsonBody, AListOfIdsHoldsNothingButIds) {
  for (const char* other :
       {"{}", R"({"a":1})", R"({"a":[1]})", R"("a")", "null", "true", "1.5", "-1", "[]", "[1]"}) {
    for (const char* around : {"[1,~]", "[1,~,2]", "[[1,~]]", "[[~,1]]", "[[1],[1,~]]", "[[],[~]]",
                               "[[1],[2],[~]]", "[[~]]"}) {
      std::string list = around;
      list.replace(list.find('~'), 1, other);
      for (const char* field : {"prompt", "tokens"}) {
        EXPECT_NE(ErrorOf("{\"" + std::string(field) + "\":" + list + "}"), "") << field << list;
      }
    }
  }
}

// Fields that only choose other tokens have no effect on a generator of tokens; a real model
// without the feature would answer something else than was asked for.
TEST(RequestFields, SamplingIsIgnoredByEmulatedAndRefusedByGreedyModels) {
  run::ServedModel real = Model();
  real.emulated = false;
  for (const auto& [fields, name] : {std::pair{R"("temperature":0.5)", "temperature"},
                                     std::pair{R"("frequency_penalty":0.5)", "frequency_penalty"},
                                     std::pair{R"("repetition_penalty":1.2)", "repetition_penalty"},
                                     std::pair{R"("logit_bias":{"5":10})", "logit_bias"},
                                     std::pair{R"("bad_words":["x"])", "bad_words"}}) {
    EXPECT_THAT(WarningsOf(fields, Model()), ElementsAre(name));
    EXPECT_EQ(RefusalOf(fields, real), name);
  }
  // The defaults that load generators spell out.
  const std::string defaults =
      R"("repetition_penalty":1.0,"presence_penalty":0,"top_p":1,"temperature":0,"logit_bias":{})";
  EXPECT_THAT(WarningsOf(defaults, Model()), IsEmpty());
  EXPECT_EQ(RefusalOf(defaults, real), "");
}

TEST(RequestFields, SamplersGetWhatTheyWereAskedFor) {
  run::ServedModel model = Model();
  model.emulated = false;
  model.samples = true;
  const auto sampling = [&](const std::string& fields) {
    return std::get<ApiRequest>(Completion(R"({"prompt":"x")" + fields + "}", model))
        .generation.sampling;
  };
  EXPECT_EQ(sampling("").temperature, 1.0);
  EXPECT_EQ(sampling(R"(,"temperature":0.001)").temperature, 0.01);
  const run::Sampling full =
      sampling(R"(,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":9)");
  EXPECT_EQ(full, (run::Sampling{0.5, 0.9, 40, 0.1, 9}));
  EXPECT_EQ(sampling(R"(,"temperature":0,"top_k":40)").top_k, 0);
}

// A real model's sampler keeps at most eight tokens away: its end token and seven stop tokens.
TEST(RequestFields, MinTokensOfARealModelHaveFewTokensToWaitFor) {
  run::ServedModel real = Model();
  real.emulated = false;
  real.end_tokens = {1};
  const std::string eight = R"("min_tokens":2,"stop_token_ids":[2,3,4,5,6,7,8,1,2])";
  const std::string nine = R"("min_tokens":2,"stop_token_ids":[2,3,4,5,6,7,8,9])";
  EXPECT_EQ(RefusalOf(eight, real), "");
  EXPECT_EQ(RefusalOf(nine, real), "min_tokens");
  EXPECT_EQ(RefusalOf(R"("stop_token_ids":[2,3,4,5,6,7,8,9])", real), "");
  EXPECT_EQ(RefusalOf(nine, Model()), "");
}

TEST(RequestFields, LimitsAreThoseOfTheTable) {
  for (const auto& [fields, name] :
       {std::pair{R"("n":129)", "n"}, std::pair{R"("stop":["a","b","c","d","e"])", "stop"},
        std::pair{R"("stop":"")", "stop"}, std::pair{R"("temperature":2.1)", "temperature"},
        std::pair{R"("top_p":0)", "top_p"}, std::pair{R"("logprobs":21)", "logprobs"},
        std::pair{R"("min_tokens":17)", "min_tokens"},
        std::pair{R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
        std::pair{R"("best_of":2)", "best_of"}, std::pair{R"("suffix":"x")", "suffix"},
        std::pair{R"("response_format":{"type":"json_object"})", "response_format"},
        std::pair{R"("use_beam_search":true)", "use_beam_search"},
        std::pair{R"("stop_token_ids":[1000])", "stop_token_ids"},
        std::pair{R"("max_tokens":0)", "max_tokens"}}) {
    EXPECT_EQ(RefusalOf(fields, Model()), name) << fields;
  }
}

TEST(RequestFields, TellsAllErrorsAtOnce) {
  const ParsedRequest parsed = Completion(R"({"prompt":"x","n":0,"logprobs":99})");
  const std::string message = std::get<ApiError>(parsed).message;
  EXPECT_THAT(message, HasSubstr("2 validation errors"));
  EXPECT_THAT(message, HasSubstr("logprobs is 99; allowed: 0 to 20"));
  EXPECT_THAT(message, HasSubstr("n is 0; allowed: 1 to 128"));
}

TEST(RequestFields, NamesThatClientsMakeUpStandForTheModel) {
  EXPECT_TRUE(NamesModel("", Model()));
  EXPECT_TRUE(NamesModel("dummy", Model()));
  EXPECT_TRUE(NamesModel("tgi", Model()));
  EXPECT_TRUE(NamesModel("model-a", Model()));
  EXPECT_FALSE(NamesModel("model-b", Model()));
}

TEST(RequestFields, TheIdOfACheckpointStandsForItsPreset) {
  run::ServedModel model = Model();
  model.name = "llama-3.1-8b";
  EXPECT_TRUE(NamesModel("meta-llama/Llama-3.1-8B", model));
  EXPECT_TRUE(NamesModel("meta-llama/Llama-3.1-8B-Instruct", model));
  EXPECT_FALSE(NamesModel("meta-llama/Llama-3.1-70B", model));
  EXPECT_FALSE(NamesModel(std::string(1000, 'a') + "/llama-3.1-8b", model));
}

TEST(RequestFields, EqualSaltsGiveEqualSaltsAndNoneGivesZero) {
  const auto salt = [](const std::string& fields) {
    return std::get<ApiRequest>(Completion(R"({"prompt":"x")" + fields + "}"))
        .generation.cache_salt;
  };
  EXPECT_EQ(salt(""), 0u);
  EXPECT_NE(salt(R"(,"cache_salt":"a")"), 0u);
  EXPECT_EQ(salt(R"(,"cache_salt":"a")"), salt(R"(,"cache_salt":"a")"));
  EXPECT_NE(salt(R"(,"cache_salt":"a")"), salt(R"(,"cache_salt":"b")"));
}

}  // namespace
}  // namespace twin::serve
