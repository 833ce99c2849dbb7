// vLLM's form of OpenAI's answers: objects "text_completion" and "chat.completion[.chunk]".
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "apps/serve/json_text.h"
#include "apps/serve/protocol/answer.h"
#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/prompt_tokens.h"

namespace twin::serve {
namespace {

// Written in place of an infinite logprob, which JSON lacks; vLLM and OpenAI do the same.
constexpr float kLogprobMin = -9999.0F;

std::string LogprobText(float logprob) {
  return fmt::format("{}", std::isfinite(logprob) ? logprob : kLogprobMin);
}

class OpenAiFormat final : public AnswerFormat {
 public:
  explicit OpenAiFormat(const AnswerContext& context)
      : context_(context),
        request_(*context.request),
        chat_(request_.form == AnswerForm::kChat),
        head_(fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{})",
                          JsonString(context.id), Object(), context.created,
                          JsonString(context.model))) {}

  void AppendBegin(std::string& out, const AnswerChoice& choice) override {
    if (chat_) {
      BeginEvent(out, choice);
      out += R"("delta":{"role":"assistant","content":""},"logprobs":null)";
      EndEvent(out, choice, /*ends=*/false);
    }
    const std::string& prompt = PromptOf(choice).text;
    if (!request_.echo || prompt.empty()) return;
    BeginEvent(out, choice);
    AppendTextField(out, prompt);
    out += R"(,"logprobs":null)";
    EndEvent(out, choice, /*ends=*/false);
  }

  void AppendDelta(std::string& out, const AnswerChoice& choice,
                   const AnswerChoice::Delta& delta) override {
    BeginEvent(out, choice);
    AppendTextField(out, delta.text);
    out += R"(,"logprobs":)";
    if (request_.generation.logprobs < 0) {
      out += "null";
    } else {
      out += Logprobs(delta.tokens, OffsetOf(choice));
    }
    if (request_.return_token_ids) out += R"(,"token_ids":)" + Ids(delta.tokens);
    EndEvent(out, choice, choice.finished());
  }

  void AppendEnd(std::string& out, const std::vector<AnswerChoice>& choices) override {
    if (request_.include_usage) {
      out += "data: " + head_ + R"(,"choices":[],"usage":)" + Usage(choices) + "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void AppendError(std::string& out, const ApiError& error) override {
    out += "data: " + ErrorText(error, Dialect::kOpenAi) + "\n\ndata: [DONE]\n\n";
  }

  std::string Whole(const std::vector<AnswerChoice>& choices) override {
    std::string out = head_ + R"(,"choices":[)";
    for (const AnswerChoice& choice : choices) {
      if (&choice != &choices.front()) out += ',';
      AppendWholeChoice(out, choice);
    }
    out += R"(],"service_tier":null,"system_fingerprint":)" + Fingerprint();
    out += R"(,"usage":)" + Usage(choices) + R"(,"kv_transfer_params":null})";
    return out;
  }

 private:
  [[nodiscard]] std::string_view Object() const {
    if (!chat_) return "text_completion";
    return request_.stream ? "chat.completion.chunk" : "chat.completion";
  }

  [[nodiscard]] const TokenizedPrompt& PromptOf(const AnswerChoice& choice) const {
    return (*context_.prompts)[static_cast<std::size_t>(choice.prompt())];
  }

  [[nodiscard]] std::string Fingerprint() const {
    return JsonString("twinserve-" + context_.version);
  }

  void AppendTextField(std::string& out, std::string_view text) const {
    out += chat_ ? R"("delta":{"content":)" : R"("text":)";
    AppendJsonString(out, text);
    if (chat_) out += '}';
  }

  // An event is written in place: there are tens of thousands a second.
  void BeginEvent(std::string& out, const AnswerChoice& choice) const {
    out += "data: ";
    out += head_;
    out += R"(,"choices":[{"index":)";
    fmt::format_to(std::back_inserter(out), FMT_COMPILE("{},"), choice.index());
  }

  void EndEvent(std::string& out, const AnswerChoice& choice, bool ends) const {
    out += R"(,"finish_reason":)";
    if (ends) {
      AppendJsonString(out, choice.finish_reason());
    } else {
      out += "null";
    }
    if (!chat_ || ends) {
      out += R"(,"stop_reason":)";
      out += choice.stop_reason();
    }
    out += "}]";
    if (ends) out += R"(,"system_fingerprint":)" + Fingerprint();
    if (request_.continuous_usage) {
      out +=
          R"(,"usage":)" + UsageText(PromptOf(choice).ids.size(), choice.generated(), std::nullopt);
    }
    out += "}\n\n";
  }

  void AppendWholeChoice(std::string& out, const AnswerChoice& choice) const {
    const std::string text = (request_.echo ? PromptOf(choice).text : "") + choice.text();
    out += fmt::format(R"({{"index":{},)", choice.index());
    if (chat_) {
      out += R"("message":{"role":"assistant","content":)" + JsonString(text);
      out += R"(,"refusal":null,"annotations":null,"audio":null,"function_call":null)";
      out += R"(,"reasoning":null})";
    } else {
      out += R"("text":)" + JsonString(text);
    }
    std::size_t offset = 0;
    out += R"(,"logprobs":)" + Logprobs(choice.tokens(), offset);
    out += fmt::format(R"(,"finish_reason":"{}","stop_reason":{})", choice.finish_reason(),
                       choice.stop_reason());
    out += R"(,"token_ids":)";
    out += request_.return_token_ids ? Ids(choice.tokens()) : "null";
    if (!chat_) out += R"(,"prompt_logprobs":null)";
    if (request_.return_token_ids) {
      out += fmt::format(R"(,"prompt_token_ids":[{}])", fmt::join(PromptOf(choice).ids, ","));
    }
    out += '}';
  }

  static std::string Ids(std::span<const run::GeneratedToken> tokens) {
    std::string out = "[";
    for (const run::GeneratedToken& token : tokens) {
      if (out.size() > 1) out += ',';
      out += fmt::to_string(token.token);
    }
    return out + "]";
  }

  [[nodiscard]] std::string TokenName(std::int32_t token) const {
    return request_.tokens_as_ids ? fmt::format("token_id:{}", token)
                                  : context_.tokenizer->TokenText(token);
  }

  // Characters of the choice before the next delta.
  std::size_t& OffsetOf(const AnswerChoice& choice) {
    if (offsets_.size() <= static_cast<std::size_t>(choice.index())) {
      offsets_.resize(static_cast<std::size_t>(choice.index()) + 1);
    }
    return offsets_[static_cast<std::size_t>(choice.index())];
  }

  [[nodiscard]] std::string Logprobs(std::span<const run::GeneratedToken> tokens,
                                     std::size_t& offset) const {
    if (request_.generation.logprobs < 0) return "null";
    return chat_ ? ChatLogprobs(tokens) : CompletionLogprobs(tokens, offset);
  }

  [[nodiscard]] std::string CompletionLogprobs(std::span<const run::GeneratedToken> tokens,
                                               std::size_t& offset) const {
    std::string offsets;
    std::string logprobs;
    std::string names;
    std::string tops;
    for (const run::GeneratedToken& token : tokens) {
      const char* comma = offsets.empty() ? "" : ",";
      const std::string name = TokenName(token.token);
      offsets += fmt::format("{}{}", comma, offset);
      offset += CharacterCount(name);
      logprobs += comma + LogprobText(token.logprob);
      names += comma + JsonString(name);
      tops += comma + TopLogprobs(token, name);
    }
    return fmt::format(
        R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})",
        offsets, logprobs, names, tops);
  }

  // The drawn token and the most likely ones: logprobs + 1 entries if it is not among them.
  [[nodiscard]] std::string TopLogprobs(const run::GeneratedToken& token,
                                        const std::string& name) const {
    std::string out = "{" + JsonString(name) + ":" + LogprobText(token.logprob);
    for (const run::AlternativeToken& other : token.alternatives) {
      if (other.token == token.token) continue;
      out += "," + JsonString(TokenName(other.token)) + ":" + LogprobText(other.logprob);
    }
    return out + "}";
  }

  [[nodiscard]] std::string ChatLogprob(std::int32_t token, float logprob) const {
    const std::string name = TokenName(token);
    std::string bytes;
    for (const char c : name) {
      bytes += fmt::format("{}{}", bytes.empty() ? "" : ",", static_cast<unsigned char>(c));
    }
    return fmt::format(R"("token":{},"logprob":{},"bytes":[{}])", JsonString(name),
                       LogprobText(logprob), bytes);
  }

  [[nodiscard]] std::string ChatLogprobs(std::span<const run::GeneratedToken> tokens) const {
    std::string out = R"({"content":[)";
    for (const run::GeneratedToken& token : tokens) {
      if (&token != &tokens.front()) out += ',';
      out += "{" + ChatLogprob(token.token, token.logprob) + R"(,"top_logprobs":[)";
      for (const run::AlternativeToken& top : token.alternatives) {
        if (&top != &token.alternatives.front()) out += ',';
        out += "{" + ChatLogprob(top.token, top.logprob) + "}";
      }
      out += "]}";
    }
    return out + "]}";
  }

  static std::string UsageText(std::size_t prompt, std::int64_t generated,
                               std::optional<std::int64_t> cached) {
    return fmt::format(R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},)"
                       R"("prompt_tokens_details":{}}})",
                       prompt, static_cast<std::int64_t>(prompt) + generated, generated,
                       cached ? fmt::format(R"({{"cached_tokens":{}}})", *cached) : "null");
  }

  // A prompt counts once, however many answers it has.
  [[nodiscard]] std::string Usage(const std::vector<AnswerChoice>& choices) const {
    std::size_t prompt_tokens = 0;
    for (const TokenizedPrompt& prompt : *context_.prompts) prompt_tokens += prompt.ids.size();
    std::int64_t generated = 0;
    std::int64_t cached = 0;
    for (const AnswerChoice& choice : choices) {
      generated += choice.generated();
      const bool first = choice.index() % request_.answers == 0;
      if (first && choice.end()) cached += choice.end()->cached_prompt_tokens;
    }
    return UsageText(prompt_tokens, generated, cached);
  }

  const AnswerContext& context_;
  const ApiRequest& request_;
  const bool chat_;
  const std::string head_;
  std::vector<std::size_t> offsets_;  // per choice
};

}  // namespace

std::unique_ptr<AnswerFormat> NewOpenAiFormat(const AnswerContext& context) {
  return std::make_unique<OpenAiFormat>(context);
}

}  // namespace twin::serve
