// A tokenizer read from a Hugging Face tokenizer.json.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/text/added_tokens.h"
#include "apps/serve/text/bpe_model.h"
#include "apps/serve/text/normalizer.h"
#include "apps/serve/text/post_processor.h"
#include "apps/serve/text/pre_tokenizer.h"
#include "apps/serve/text/token_decoder.h"
#include "apps/serve/text/tokenizer.h"

namespace twin::text {

// Gives the ids, offsets and texts of Hugging Face `tokenizers` 0.23.3.
class HfTokenizer : public Tokenizer {
 public:
  // `where` stands for the file in errors.
  HfTokenizer(TokenizerJson json, const std::string& where);
  ~HfTokenizer() override;

  [[nodiscard]] std::vector<TokenId> Encode(std::string_view text,
                                            bool add_special_tokens) const override;
  [[nodiscard]] Encoding EncodeWithOffsets(std::string_view text,
                                           bool add_special_tokens) const override;
  [[nodiscard]] std::unique_ptr<Detokenizer> NewDetokenizer(
      DetokenizerOptions options) const override;
  [[nodiscard]] std::optional<std::string> TokenSpelling(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> FindToken(std::string_view spelling) const override;
  [[nodiscard]] bool IsSpecial(TokenId id) const override;
  [[nodiscard]] std::size_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::size_t longest_token() const override { return longest_token_; }

  // nullptr if no token has the id.
  [[nodiscard]] const std::string* SpellingOf(TokenId id) const;

 private:
  class Encoder;
  class WordCache;

  [[nodiscard]] Encoding EncodeText(std::string_view text, bool add_special_tokens,
                                    bool with_offsets) const;
  // Takes spaces out of the characters of tokens, which stand for `bytes` of `text`.
  void TrimSpaces(std::string_view text, const std::vector<Span>& bytes, Encoding& encoding) const;

  // Lends a cache to one call at a time, so that threads do not share it.
  std::unique_ptr<WordCache> BorrowCache() const;
  void ReturnCache(std::unique_ptr<WordCache> cache) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  TokenDecoder decoder_;
  // Words are cut before this text if that changes no token, so that a text without words is not
  // one long word; empty if it would.
  std::string cut_before_;
  std::size_t vocabulary_ = 0;
  std::size_t longest_token_ = 1;

  mutable std::mutex caches_lock_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;
};

}  // namespace twin::text
