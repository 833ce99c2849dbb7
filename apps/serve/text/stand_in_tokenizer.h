// A tokenizer for emulated models without a tokenizer of their own.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

struct StandInOptions {
  std::uint64_t seed = 0;
  std::int32_t vocabulary = 0;      // ids are 0 to vocabulary - 1; at least 2
  double characters_per_token = 4;  // 2 to 12
  // Ids without a word, for example tokens that end an answer. IsSpecial() is true for them.
  std::vector<TokenId> special = {};
};

// Each id is a word of its own: a space and lower-case letters. Encoding the text of any sequence
// of ids gives exactly these ids again. A client that counts the tokens of an answer therefore
// counts right, and the next turn of a conversation finds the answer in the prefix cache.
//
// Text that has no word of the vocabulary is cut from its begin into pieces of characters_per_token
// characters, rounded so that the mean holds; the last piece may be shorter. Their ids follow from
// their content. Such ids do not decode to the text: Decode(Encode(text)) is other text of the same
// number of tokens. Nothing is added around a text. The same seed gives the same vocabulary.
class StandInTokenizer : public Tokenizer {
 public:
  // Throws InputError (usage) for options outside the ranges above.
  explicit StandInTokenizer(const StandInOptions& options);

  // Ids whose words have characters_per_token() characters in the mean. Answers of emulated models
  // are drawn uniformly from them.
  [[nodiscard]] const std::vector<TokenId>& output_tokens() const { return output_tokens_; }
  // The mean over output_tokens(), which is as near to the option as whole words allow.
  [[nodiscard]] double characters_per_token() const { return characters_per_token_; }

  [[nodiscard]] std::vector<TokenId> Encode(std::string_view text,
                                            bool add_special_tokens) const override;
  [[nodiscard]] Encoding EncodeWithOffsets(std::string_view text,
                                           bool add_special_tokens) const override;
  [[nodiscard]] std::unique_ptr<Detokenizer> NewDetokenizer(
      DetokenizerOptions options) const override;
  [[nodiscard]] std::optional<std::string> TokenSpelling(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> FindToken(std::string_view spelling) const override;
  [[nodiscard]] bool IsSpecial(TokenId id) const override;
  [[nodiscard]] std::size_t vocabulary() const override { return spellings_.size(); }
  [[nodiscard]] std::size_t longest_token() const override;

 private:
  // Numbers of words, of two neighbouring lengths, that answers are drawn from.
  struct OutputWords {
    std::size_t letters;       // of a shorter word
    std::int64_t shorter = 0;  // words with `letters` letters
    std::int64_t longer = 0;   // words with one letter more
  };
  OutputWords ChooseOutputWords(std::int64_t words) const;
  void AddWords(std::size_t letters, std::int64_t first, std::int64_t count,
                std::vector<std::string>& words) const;
  // Appends the ids of text without words.
  void EncodeOther(std::string_view text, std::size_t first_character, Encoding& encoding) const;

  StandInOptions options_;
  std::vector<std::string> spellings_;  // by id
  std::vector<bool> special_;           // by id
  std::unordered_map<std::string_view, TokenId> ids_;
  std::vector<TokenId> output_tokens_;
  double characters_per_token_ = 0;
};

}  // namespace twin::text
