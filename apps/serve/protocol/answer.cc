#include "apps/serve/protocol/answer.h"

#include <fmt/format.h>

#include <utility>

#include "apps/serve/json_text.h"
#include "apps/serve/protocol/api_request.h"

namespace twin::serve {

using MatchedText = text::StopMatcher::MatchedText;

AnswerChoice::AnswerChoice(std::int32_t index, std::int32_t prompt, const ApiRequest& request,
                           const text::Tokenizer& tokenizer)
    : index_(index),
      prompt_(prompt),
      request_(request),
      keeps_text_(!request.stream || request.form == AnswerForm::kGenerate),
      keeps_tokens_(!request.stream && (request.generation.logprobs >= 0 ||
                                        request.return_token_ids || request.details)),
      detokenizer_(tokenizer.NewDetokenizer({.skip_special_tokens = request.skip_special_tokens})),
      stop_(request.stop, request.keep_stop ? MatchedText::kKeep : MatchedText::kCut) {}

AnswerChoice::Delta AnswerChoice::Add(std::span<const run::GeneratedToken> tokens,
                                      const std::optional<run::GenerationEnd>& end) {
  Delta delta;
  if (!finished()) {
    std::size_t counted = 0;
    for (const run::GeneratedToken& token : tokens) {
      ++generated_;
      last_token_ = token.token;
      const bool may_stop = generated_ > request_.generation.min_tokens;
      // The token that ends an answer has no text, also without skip_special_tokens.
      const bool ends = &token == &tokens.back() && end && end->reason == run::EndReason::kStop;
      if (!ends) delta.text += stop_.Push(detokenizer_->Push(token.token), may_stop);
      if (keeps_tokens_) tokens_.push_back(token);
      ++counted;
      if (!found_stop()) continue;
      finish_reason_ = "stop";
      stop_reason_ = JsonString(stop_.stops()[*stop_.matched()]);
      break;
    }
    delta.tokens = tokens.first(counted);
    if (end && !finished()) Finish(*end, delta.text);
  }
  if (end) end_ = end;
  if (keeps_text_) text_ += delta.text;
  return delta;
}

void AnswerChoice::Finish(const run::GenerationEnd& end, std::string& text) {
  std::string held = detokenizer_->Finish();
  if (request_.show_held_bytes) text += stop_.Push(held);
  text += stop_.Finish();
  switch (end.reason) {
    case run::EndReason::kStopToken:
      stop_reason_ = fmt::to_string(last_token_);
      [[fallthrough]];
    case run::EndReason::kStop:
      finish_reason_ = "stop";
      return;
    case run::EndReason::kLength:
      finish_reason_ = "length";
      return;
    case run::EndReason::kCancelled:
    case run::EndReason::kRejected:
    case run::EndReason::kAborted:
      finish_reason_ = "abort";
      return;
  }
}

std::string_view AnswerChoice::tgi_reason() const {
  if (finish_reason_ == "length") return "length";
  return found_stop() ? "stop_sequence" : "eos_token";
}

}  // namespace twin::serve
