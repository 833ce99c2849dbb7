#include "apps/serve/serving_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <variant>

#include "apps/serve/text/chat_template.h"
#include "apps/serve/text/named_templates.h"
#include "apps/serve/text/stand_in_tokenizer.h"
#include "apps/serve/text/word_tokens.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "run/real/real_system.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTemplateBytesMax = 256 << 10;
constexpr double kCharactersPerToken = 4;  // of an emulated model's stand-in

// The folder of the tokenizer: the option's, else the model's if it has a tokenizer.json; else
// empty.
fs::path TokenizerFolder(const ExperimentConfig& config, const ServingTextOptions& options) {
  if (!options.tokenizer.empty()) {
    const fs::path given = options.tokenizer;
    return fs::is_directory(given) ? given : given.parent_path();
  }
  fs::path model = config.system.model;
  if (fs::is_regular_file(model)) model = model.parent_path();
  return fs::is_regular_file(model / "tokenizer.json") ? model : fs::path();
}

std::string ReadTemplateFile(const std::string& path) {
  std::string source = ReadFile(path, kTemplateBytesMax);
  if (source.empty()) throw InputError(InputError::Kind::kData, path, "is empty, no chat template");
  return source;
}

// The option's file or named template, else the model's own, else chatml's.
text::ChatTemplate LoadTemplate(const fs::path& folder, const std::string& option,
                                std::vector<std::string>& notes) {
  nlohmann::ordered_json tokens =
      folder.empty() ? nlohmann::ordered_json::object() : text::SpecialTokensOf(folder);
  if (fs::is_regular_file(option)) {
    return text::ChatTemplate(ReadTemplateFile(option), option, std::move(tokens));
  }
  if (!option.empty()) return text::ChatTemplate::Named(option, std::move(tokens));
  if (!folder.empty()) {
    try {
      return text::ChatTemplate::OfModel(folder);
    } catch (const InputError& error) {
      notes.push_back(fmt::format("{}; chats take the template chatml", error.what()));
    }
  }
  return text::ChatTemplate::Named("chatml", std::move(tokens));
}

}  // namespace

ServingText::ServingText(const ExperimentConfig& config, const ServingTextOptions& options) {
  const fs::path folder = TokenizerFolder(config, options);
  const std::int32_t vocabulary = config.system.model_spec.vocab;
  const bool real = IsReal(config.world);
  if (!folder.empty() || !options.tokenizer.empty()) {
    const fs::path file = options.tokenizer.empty() ? folder : fs::path(options.tokenizer);
    tokenizer_ = text::LoadTokenizer(file);
    if (!real) {
      drawn_tokens_ = text::WordTokens(*tokenizer_, config.seed);
      std::erase_if(drawn_tokens_, [&](std::int32_t id) { return id >= vocabulary; });
    }
  } else if (real && !options.characters_per_token) {
    throw InputError(InputError::Kind::kUsage, "system.model",
                     "has no tokenizer.json; name one with --tokenizer, or ask for a stand-in with "
                     "--characters-per-token");
  } else {
    UseStandIn(config, options.characters_per_token.value_or(kCharactersPerToken));
  }
  auto chat =
      std::make_shared<text::ChatTemplate>(LoadTemplate(folder, options.chat_template, notes_));
  render_chat_ = [chat](const text::ChatPrompt& prompt) { return chat->Render(prompt); };
}

void ServingText::UseStandIn(const ExperimentConfig& config, double characters_per_token) {
  const bool real = IsReal(config.world);
  std::int32_t vocabulary = config.system.model_spec.vocab;
  if (real) {
    const ModelConfig model = run::FindServedModels(config).target.config;
    vocabulary = model.shape.vocab;
    end_tokens_ = model.end_tokens;
    std::erase_if(end_tokens_, [&](std::int32_t id) { return id < 0 || id >= vocabulary; });
  } else {
    // The last id of the vocabulary ends answers.
    end_tokens_ = {vocabulary - 1};
  }
  auto stand_in = std::make_unique<text::StandInTokenizer>(
      text::StandInOptions{.seed = config.seed,
                           .vocabulary = vocabulary,
                           .characters_per_token = characters_per_token,
                           .special = end_tokens_});
  drawn_tokens_ = stand_in->output_tokens();
  const std::string what = fmt::format("no tokenizer: a stand-in with {:.2f} characters per token",
                                       stand_in->characters_per_token());
  if (real) {
    warnings_.push_back(what + "; the model reads and writes other text than its own");
  } else {
    notes_.push_back(what);
  }
  tokenizer_ = std::move(stand_in);
}

serve::TextTools ServingText::tools() const { return {tokenizer_.get(), render_chat_}; }

}  // namespace twin::apps
