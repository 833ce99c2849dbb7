// A tokenizer for tests of whatever uses one: a token is a byte.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/text/tokenizer.h"
#include "apps/serve/text/utf8.h"

namespace twin {

class ByteTokenizer : public text::Tokenizer {
 public:
  static constexpr text::TokenId kBegin = 256;  // special, in front of texts
  static constexpr text::TokenId kEnd = 257;    // special, ends answers

  std::vector<text::TokenId> Encode(std::string_view text, bool add_special_tokens) const override {
    std::vector<text::TokenId> ids;
    if (add_special_tokens) ids.push_back(kBegin);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  text::Encoding EncodeWithOffsets(std::string_view text, bool add_special_tokens) const override {
    text::Encoding encoding{Encode(text, add_special_tokens), {}};
    encoding.characters.resize(encoding.ids.size() - text.size());
    for (std::size_t i = 0; i < text.size(); ++i) encoding.characters.push_back({i, i + 1});
    return encoding;
  }

  std::unique_ptr<text::Detokenizer> NewDetokenizer(
      text::DetokenizerOptions options) const override {
    return std::make_unique<Bytes>(options.skip_special_tokens);
  }

  std::optional<std::string> TokenSpelling(text::TokenId id) const override {
    if (id == kBegin) return "<s>";
    if (id == kEnd) return "</s>";
    return std::string(1, static_cast<char>(id));
  }
  std::optional<text::TokenId> FindToken(std::string_view spelling) const override {
    if (spelling.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(spelling[0]);
  }
  bool IsSpecial(text::TokenId id) const override { return id >= kBegin; }
  std::size_t vocabulary() const override { return 258; }
  std::size_t longest_token() const override { return 4; }

 private:
  class Bytes final : public text::Detokenizer {
   public:
    explicit Bytes(bool skip_special_tokens) : skip_(skip_special_tokens) {}
    std::string Push(text::TokenId id) override {
      std::string text;
      if (id < kBegin) {
        const char byte = static_cast<char>(id);
        decoder_.Push({&byte, 1}, text);
      } else if (!skip_) {
        text = id == kBegin ? "<s>" : "</s>";
      }
      return text;
    }
    std::string Finish() override {
      std::string text;
      decoder_.Finish(text);
      return text;
    }

   private:
    text::LossyUtf8Decoder decoder_;
    bool skip_;
  };
};

}  // namespace twin
