// Byte pair encoding: turns words into the tokens of a vocabulary by merging neighbours.
//
// A word starts as its characters (as its bytes in byte-level vocabularies). As long as two
// neighbours are a merge of the vocabulary, the two whose merge is listed first become one token;
// of equal merges, the leftmost (Sennrich, Haddow, Birch, ACL 2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/serve/text/json_part.h"
#include "apps/serve/text/tokenizer.h"
#include "core/hash.h"

namespace twin::text {

struct TokenizerJson;

// A token and how many bytes of its word it stands for.
struct WordToken {
  TokenId id;
  std::uint32_t bytes;
};

// The merges of a vocabulary: from two neighbouring tokens to the token that they become. A hash
// table with linear probing, at most half full: merging asks it once per pair of neighbours, which
// costs about one access to memory.
class PairTable {
 public:
  struct Merge {
    std::uint32_t rank = kNoMerge;  // smaller merges first
    TokenId merged = -1;
  };
  static constexpr std::uint32_t kNoMerge = UINT32_MAX;

  // An empty table for up to `size` merges.
  explicit PairTable(std::size_t size = 0);

  // A later merge of the same pair replaces the earlier one. REQUIRES: ids >= 0, merge.rank is not
  // kNoMerge, and the table has room.
  void Insert(TokenId left, TokenId right, Merge merge);

  // rank is kNoMerge if the two do not merge.
  [[nodiscard]] Merge Find(TokenId left, TokenId right) const {
    const std::uint64_t key = KeyOf(left, right);
    for (std::size_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  static std::uint64_t KeyOf(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t SlotOf(std::uint64_t key) const {
    return static_cast<std::size_t>(MixWords(key, 0)) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
  std::size_t used_ = 0;
};

// Immutable and thread-safe.
class BpeModel {
 public:
  // Moves the lists out of `json`; `part` is the object "model". Throws InputError (data) for
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
  // Tokens of whole words by the bytes of the word. Empty unless ignore_merges.
  std::unordered_map<std::string, TokenId> whole_words_;
  std::vector<TokenId> byte_tokens_;  // by byte, for byte_level or byte_fallback; -1 = no token
  PairTable merges_;
};

}  // namespace twin::text
