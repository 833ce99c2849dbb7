// Byte pair encoding: turns words into the tokens of a vocabulary by merging neighbours.
//
// A word starts as its characters (as its bytes in byte-level vocabularies). As long as two
// neighbours are a merge of the vocabulary, those of the merge that is listed first become one
// token; of equal ones, the leftmost (Sennrich, Haddow, Birch, ACL 2016).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/serve/text/json_part.h"
#include "apps/serve/text/pair_table.h"
#include "apps/serve/text/tokenizer_json.h"

namespace twin::text {

// A token and how many bytes of its word it stands for.
struct WordToken {
  TokenId id;
  std::uint32_t bytes;
};

// Immutable and thread-safe.
class BpeModel {
 public:
  // Takes the lists of `json` over; `part` is the object "model". Throws InputError (data) for
  // other kinds of models, settings that are not supported, and lists that do not fit together.
  BpeModel(TokenizerJson& json, const JsonPart& part, bool byte_level);
  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

  // Appends the tokens of one word. REQUIRES: `word` is valid UTF-8, or byte_level.
  void Encode(std::string_view word, std::vector<WordToken>& tokens) const;

  // nullptr if no token has the id.
  [[nodiscard]] const std::string* Spelling(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> Find(std::string_view spelling) const;
  [[nodiscard]] std::size_t token_count() const { return ids_.size(); }
  // One more than the largest id.
  [[nodiscard]] std::size_t size() const { return spellings_.size(); }

  // True if a text may be cut before each `separator` that follows another character, without a
  // change of its tokens: no token reaches over such a place.
  [[nodiscard]] bool MayCutBefore(std::string_view separator) const;

 private:
  struct PendingUnknown;

  void ReadVocabulary(TokenizerJson& json, const JsonPart& part);
  void ReadMerges(TokenizerJson& json, const JsonPart& part);
  void ReadFallbacks(const JsonPart& part);
  void ReadBytes(const JsonPart& part);
  void AppendSymbols(std::string_view word, std::vector<WordToken>& symbols) const;
  void AppendCharacters(std::string_view word, std::vector<WordToken>& symbols) const;

  bool byte_level_;
  bool ignore_merges_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  std::optional<TokenId> unknown_;
  std::vector<std::string> spellings_;  // by id; empty for ids without a token
  std::unordered_map<std::string_view, TokenId> ids_;
  // Whole words with a token, if these are not merged. The bytes they stand for.
  std::unordered_map<std::string, TokenId> whole_words_;
  std::vector<TokenId> byte_tokens_;  // of byte-level symbols, or of byte fallback; -1 for none
  PairTable merges_;
};

}  // namespace twin::text
