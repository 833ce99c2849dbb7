// The tokenizer and the chat template of a served model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/protocol/prompt_tokens.h"
#include "apps/serve/text/tokenizer.h"
#include "config/experiment_config.h"

namespace twin::apps {

struct ServingTextOptions {
  std::string tokenizer = {};      // tokenizer.json or its folder; empty: the model's
  std::string chat_template = {};  // a file; empty: the tokenizer's, else a plain one
  // Characters per token of the stand-in; unset: 4 for an emulated model, no stand-in for a real
  // one.
  std::optional<double> characters_per_token = std::nullopt;
};

// Loads the tokenizer that the options or the experiment's model name; a model without one gets a
// stand-in, a real model only if characters_per_token is given. Throws InputError (data) for
// files that cannot be read or are not supported, (usage) for a real model without a tokenizer,
// or what run::FindServedModels throws.
class ServingText {
 public:
  ServingText(const ExperimentConfig& config, const ServingTextOptions& options);

  // Borrows from this object.
  [[nodiscard]] serve::TextTools tools() const;
  // Tokens that answers of an emulated model consist of. Their text has exactly these tokens again.
  [[nodiscard]] const std::vector<std::int32_t>& drawn_tokens() const { return drawn_tokens_; }
  [[nodiscard]] const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }
  // One line each for the user.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void UseStandIn(const ExperimentConfig& config, double characters_per_token);

  std::unique_ptr<text::Tokenizer> tokenizer_;
  serve::ChatRenderer render_chat_;
  std::vector<std::int32_t> drawn_tokens_;
  std::vector<std::int32_t> end_tokens_;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
};

}  // namespace twin::apps
