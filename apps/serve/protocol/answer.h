// The state of the answers to one request, and the interface of the protocols that write them.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/protocol/api_error.h"
#include "apps/serve/service/service.h"
#include "apps/serve/text/stop_matcher.h"
#include "apps/serve/text/tokenizer.h"

namespace twin::serve {

struct ApiRequest;
struct TokenizedPrompt;

// One of n answers to one of the prompts.
class AnswerChoice {
 public:
  // `request` and `tokenizer` must outlive the choice.
  AnswerChoice(std::int32_t index, std::int32_t prompt, const ApiRequest& request,
               const text::Tokenizer& tokenizer);

  // The additions of a batch of tokens.
  struct Delta {
    std::string text;  // may be empty
    // Empty only for an answer that was cut short. Borrowed from the caller of Add().
    std::span<const run::GeneratedToken> tokens;
  };

  // Adds tokens, and the end if it follows them. Tokens after a stop string do not count.
  Delta Add(std::span<const run::GeneratedToken> tokens,
            const std::optional<run::GenerationEnd>& end);

  [[nodiscard]] std::int32_t index() const { return index_; }
  [[nodiscard]] std::int32_t prompt() const { return prompt_; }
  // True once the answer is complete for the client: no delta follows.
  [[nodiscard]] bool finished() const { return !finish_reason_.empty(); }
  [[nodiscard]] bool found_stop() const { return stop_.matched().has_value(); }
  // "stop", "length", "abort"; empty while it goes on.
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }
  // JSON: null, the stop string, or the id of the stop token.
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }
  // TGI's name of the reason.
  [[nodiscard]] std::string_view tgi_reason() const;
  [[nodiscard]] std::int32_t generated() const { return generated_; }
  // Everything since the start, if the request's answer needs it.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<run::GeneratedToken>& tokens() const { return tokens_; }
  [[nodiscard]] const std::optional<run::GenerationEnd>& end() const { return end_; }

 private:
  void Finish(const run::GenerationEnd& end, std::string& text);

  std::int32_t index_;
  std::int32_t prompt_;
  const ApiRequest& request_;
  bool keeps_text_;
  bool keeps_tokens_;
  std::unique_ptr<text::Detokenizer> detokenizer_;
  text::StopMatcher stop_;
  std::string text_;
  std::vector<run::GeneratedToken> tokens_;
  std::int32_t generated_ = 0;
  std::int32_t last_token_ = -1;
  std::string finish_reason_;
  std::string stop_reason_ = "null";
  std::optional<run::GenerationEnd> end_;
};

// Values that all choices share. They do not change once the service has the request.
struct AnswerContext {
  const ApiRequest* request = nullptr;
  const std::vector<TokenizedPrompt>* prompts = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  std::string id;       // "cmpl-..." or "chatcmpl-..."
  std::string model;    // its name
  std::string version;  // of this program, for system_fingerprint
  std::time_t created = 0;
};

// Writes answers in one protocol. Events are appended to `out` as they go into the stream.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // Appends what precedes a choice's first delta: the role, the echoed prompt.
  virtual void AppendBegin(std::string& out, const AnswerChoice& choice) = 0;
  virtual void AppendDelta(std::string& out, const AnswerChoice& choice,
                           const AnswerChoice::Delta& delta) = 0;
  // Appends the end of the stream. REQUIRES: all choices have their GenerationEnd.
  virtual void AppendEnd(std::string& out, const std::vector<AnswerChoice>& choices) = 0;
  virtual void AppendError(std::string& out, const ApiError& error) = 0;
  // The answer as one JSON text.
  [[nodiscard]] virtual std::string Whole(const std::vector<AnswerChoice>& choices) = 0;
};

// `context` must outlive the format.
std::unique_ptr<AnswerFormat> NewOpenAiFormat(const AnswerContext& context);
std::unique_ptr<AnswerFormat> NewTgiFormat(const AnswerContext& context);

}  // namespace twin::serve
