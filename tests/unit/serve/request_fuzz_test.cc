// Changes bodies at random and reads them as requests: nothing may crash, hang or grow, and what is
// accepted keeps the limits of the table. Built with sanitizers, it finds what reading does wrong.
// TWIN_FUZZ_RUNS sets the number of bodies.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/json_body.h"
#include "core/random.h"
#include "tests/unit/serve/mutated_text.h"

namespace twin::serve {
namespace {

using Parse = std::function<ParsedRequest(JsonBody, const run::ServedModel&)>;

const std::string kBodies[] = {
    R"({"model":"model-a","prompt":"hello","max_tokens":5,"n":2,"stop":["a","b"],"stream":true,)"
    R"("stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9,"seed":-3})",
    R"({"prompt":[[1,2,3],[4]],"logprobs":2,"echo":false,"priority":0,"logit_bias":{"5":-1}})",
    R"({"prompt":[1,2,3],"truncate_prompt_tokens":-1,"cache_salt":"s","stop_token_ids":[7]})",
    R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text",)"
    R"("text":"x"}]}],"tools":[{"type":"function"}],"chat_template_kwargs":{"a":[1,{"b":null}]},)"
    R"("top_logprobs":3,"logprobs":true,"max_completion_tokens":9})",
    R"({"inputs":"x","parameters":{"max_new_tokens":4,"stop":["."],"details":true,"seed":1}})"};

void CheckAccepted(const ParsedRequest& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ASSERT_FALSE(error->message.empty());
    ASSERT_LT(ErrorText(*error, Dialect::kOpenAi).size(), 8000u);
    return;
  }
  const auto& request = std::get<ApiRequest>(parsed);
  ASSERT_GE(request.answers, 1);
  ASSERT_LE(request.answers, kAnswersMax);
  ASSERT_GE(request.max_tokens.value_or(1), 1);
  ASSERT_LE(request.stop.size(), kStopsMax);
  ASSERT_LE(request.generation.logprobs, 20);
  for (const std::string& stop : request.stop) ASSERT_FALSE(stop.empty());
  if (const auto* ids = std::get_if<PromptIds>(&request.prompts)) {
    ASSERT_FALSE(ids->empty());
    for (const auto& prompt : *ids) {
      for (const std::int32_t id : prompt) ASSERT_GE(id, 0);
    }
  }
}

TEST(RequestFuzz, ChangedBodiesAreReadOrRefused) {
  Random random(15, "request_fuzz");
  for (const bool emulated : {true, false}) {
    run::ServedModel model;
    model.name = "model-a";
    model.vocabulary = 1000;
    model.max_model_length = 4096;
    model.emulated = emulated;
    model.samples = !emulated;
    int accepted = 0;
    for (std::int64_t i = testing::FuzzRuns(5000); i > 0; --i) {
      const std::string& body = testing::Pick(kBodies, random);
      const std::string text =
          testing::Mutated(body, testing::kJsonPieces, /*changes_min=*/1, random);
      SCOPED_TRACE(text);
      auto read = ReadJsonBody(text);
      if (std::holds_alternative<ApiError>(read)) continue;
      auto& json = std::get<JsonBody>(read);
      for (const Parse& parse :
           {Parse(&ParseCompletion), Parse(&ParseChat), Parse(&ParseGenerate)}) {
        const ParsedRequest parsed = parse(json, model);
        accepted += std::holds_alternative<ApiRequest>(parsed) ? 1 : 0;
        CheckAccepted(parsed);
        if (HasFatalFailure()) return;
      }
    }
    // Else the changes are so many that only the JSON parser is tested.
    EXPECT_GT(accepted, 100);
  }
}

}  // namespace
}  // namespace twin::serve
