// TGI's answers: generated_text with details, and events of one token each.
#include <fmt/format.h>

#include <cmath>

#include "apps/serve/json_text.h"
#include "apps/serve/protocol/answer.h"
#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/prompt_tokens.h"

namespace twin::serve {
namespace {

class TgiFormat final : public AnswerFormat {
 public:
  explicit TgiFormat(const AnswerContext& context)
      : context_(context), request_(*context.request) {}

  void AppendBegin(std::string& /*out*/, const AnswerChoice& /*choice*/) override {}

  // One event per token. Where several tokens came together, the text of all of them stands with
  // the last one, so that texts put together are the answer.
  void AppendDelta(std::string& out, const AnswerChoice& choice,
                   const AnswerChoice::Delta& delta) override {
    for (const run::GeneratedToken& token : delta.tokens) {
      const bool last = &token == &delta.tokens.back();
      const bool ends = last && choice.finished();
      out += fmt::format(R"(data: {{"index":{},"token":{},"generated_text":{},"details":{}}})",
                         ++events_, Token(token, last ? delta.text : ""),
                         ends ? JsonString(Text(choice)) : "null",
                         ends && request_.details ? StreamDetails(choice) : "null");
      out += "\n\n";
    }
  }

  void AppendEnd(std::string& /*out*/, const std::vector<AnswerChoice>& /*choices*/) override {}

  void AppendError(std::string& out, const ApiError& error) override {
    out += "data: " + ErrorText(error, Dialect::kTgi) + "\n\n";
  }

  std::string Whole(const std::vector<AnswerChoice>& choices) override {
    const AnswerChoice& choice = choices.front();
    std::string out = R"({"generated_text":)" + JsonString(Text(choice));
    if (request_.details) {
      out += fmt::format(R"(,"details":{{"finish_reason":"{}","generated_tokens":{},"seed":{},)"
                         R"("prefill":[],"tokens":[)",
                         choice.tgi_reason(), choice.generated(), Seed());
      for (const run::GeneratedToken& token : choice.tokens()) {
        if (&token != &choice.tokens().front()) out += ',';
        out += Token(token, context_.tokenizer->TokenText(token.token));
      }
      out += "]}";
    }
    out += '}';
    return request_.in_list ? "[" + out + "]" : out;
  }

 private:
  [[nodiscard]] std::string Text(const AnswerChoice& choice) const {
    return (request_.echo ? context_.prompts->front().text : "") + choice.text();
  }

  [[nodiscard]] std::string Seed() const {
    const auto& seed = request_.generation.sampling.seed;
    return seed ? fmt::to_string(*seed) : "null";
  }

  [[nodiscard]] std::string Token(const run::GeneratedToken& token, const std::string& text) const {
    return fmt::format(R"({{"id":{},"text":{},"logprob":{},"special":{}}})", token.token,
                       JsonString(text), std::isfinite(token.logprob) ? token.logprob : -9999.0F,
                       context_.tokenizer->IsSpecial(token.token));
  }

  [[nodiscard]] std::string StreamDetails(const AnswerChoice& choice) const {
    return fmt::format(
        R"({{"finish_reason":"{}","generated_tokens":{},"seed":{},"input_length":{}}})",
        choice.tgi_reason(), choice.generated(), Seed(), context_.prompts->front().ids.size());
  }

  const AnswerContext& context_;
  const ApiRequest& request_;
  std::int64_t events_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> NewTgiFormat(const AnswerContext& context) {
  return std::make_unique<TgiFormat>(context);
}

}  // namespace twin::serve
