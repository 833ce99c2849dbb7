// Tokens that are found in a text before it is cut into words: special tokens and other additions
// to a vocabulary.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/serve/text/bpe_model.h"
#include "apps/serve/text/json_part.h"
#include "apps/serve/text/normalizer.h"

namespace twin::text {

struct AddedToken {
  TokenId id;
  std::string content;
  bool single_word;  // found only between characters that are no part of words
  bool lstrip;       // takes white space before it
  bool rstrip;       // takes white space after it
  bool normalized;   // found in normalized text, with its content normalized too
  bool special;      // left out by skip_special_tokens
};

// A part of a text: a token that was found, or text between tokens.
struct TextPart {
  Span span;
  std::optional<TokenId> token;
};

// Finds a set of strings, the leftmost first. The longest of strings that begin at the same place
// is found.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher();

  // Finds `pattern` from now on; of equal patterns, only the first is found. The token is borrowed.
  void Add(std::string_view pattern, const AddedToken& token);

  // Cuts `text` into found tokens and the text between them; nothing for the empty text.
  [[nodiscard]] std::vector<TextPart> Cut(std::string_view text) const;
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

 private:
  struct Node {
    std::map<unsigned char, std::size_t> next;
    const AddedToken* token = nullptr;
  };
  struct Found {
    const AddedToken* token = nullptr;
    std::size_t bytes = 0;
  };
  // The longest pattern that begins at byte `at`.
  [[nodiscard]] Found LongestAt(std::string_view text, std::size_t at) const;

  std::vector<Node> nodes_;
  std::vector<bool> first_bytes_;
};

// Immutable and thread-safe.
class AddedTokens {
 public:
  // Reads the list "added_tokens" of `file`, if there is one. Throws InputError (data) for ids and
  // contents that contradict each other or the vocabulary of `model`.
  AddedTokens(const JsonPart& file, const BpeModel& model, const Normalizer& normalizer);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  // Finders of the tokens in a text before its normalization, and in the normalized text.
  [[nodiscard]] const AddedTokenMatcher& raw() const { return raw_; }
  [[nodiscard]] const AddedTokenMatcher& normalized() const { return normalized_; }

  // nullptr if no added token has the id.
  [[nodiscard]] const AddedToken* Find(TokenId id) const;
  [[nodiscard]] const AddedToken* Find(std::string_view content) const;
  // All added tokens, in the order of the file.
  [[nodiscard]] const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  void Read(const JsonPart& part, const BpeModel& model);

  std::vector<AddedToken> tokens_;
  TokenId next_id_ = 0;  // lowest id that a token which the vocabulary lacks may have
  std::unordered_map<TokenId, std::size_t> by_id_;
  std::unordered_map<std::string, std::size_t> by_content_;
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
};

}  // namespace twin::text
