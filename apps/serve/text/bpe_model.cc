#include "apps/serve/text/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <tuple>

#include "apps/serve/text/byte_alphabet.h"
#include "apps/serve/text/tokenizer_json.h"
#include "apps/serve/text/utf8.h"
#include "core/check.h"
#include "core/printable.h"

namespace twin::text {

namespace {

constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;
// A vocabulary may have as many ids without a token as tokens, and this many more.
constexpr std::size_t kUnusedIdsMax = std::size_t{1} << 20;
// Words of so many symbols are merged by scanning, which is faster for short ones.
constexpr std::size_t kScannedSymbols = 24;

// Keeps the merge of each pair of neighbours. Each merge that is made renews the pairs beside it.
void MergeByScanning(const PairTable& merges, std::size_t first, std::vector<WordToken>& symbols) {
  WordToken* const word = symbols.data() + first;
  std::size_t size = symbols.size() - first;
  std::array<PairTable::Merge, kScannedSymbols> pairs;
  for (std::size_t k = 0; k + 1 < size; ++k) pairs[k] = merges.Find(word[k].id, word[k + 1].id);
  while (size > 1) {
    const auto* end = pairs.begin() + size - 1;
    const auto* best = std::min_element(
        pairs.cbegin(), end, [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == PairTable::kNoMerge) break;
    const auto at = static_cast<std::size_t>(best - pairs.cbegin());
    word[at] = {best->merged, word[at].bytes + word[at + 1].bytes};
    std::copy(word + at + 2, word + size, word + at + 1);
    --size;
    // pairs[at] is the merge that was made; the next pair moves to its place.
    if (at + 1 < size) {
      std::copy(pairs.begin() + at + 2, pairs.begin() + size, pairs.begin() + at + 1);
      pairs[at] = merges.Find(word[at].id, word[at + 1].id);
    }
    if (at > 0) pairs[at - 1] = merges.Find(word[at - 1].id, word[at].id);
  }
  symbols.resize(first + size);
}

// A merge that was possible when it was queued. It is stale if its symbols have changed since.
struct QueuedMerge {
  std::uint32_t rank;
  std::uint32_t left;  // index of its left symbol
  TokenId merged;

  bool operator>(const QueuedMerge& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

struct LinkedSymbol {
  WordToken token;
  std::uint32_t previous;
  std::uint32_t next;
};

constexpr std::uint32_t kNoSymbol = UINT32_MAX;

class QueuedMerging {
 public:
  QueuedMerging(const PairTable& merges, const WordToken* word, std::size_t size)
      : merges_(merges) {
    symbols_.reserve(size);
    for (std::uint32_t k = 0; k < size; ++k) {
      symbols_.push_back({word[k], k == 0 ? kNoSymbol : k - 1, k + 1 < size ? k + 1 : kNoSymbol});
    }
    for (std::uint32_t k = 0; k + 1 < size; ++k) Queue(k);
  }

  // Writes the tokens to `word` and returns their number.
  std::size_t Run(WordToken* word) {
    while (!queue_.empty()) {
      const QueuedMerge top = queue_.top();
      queue_.pop();
      if (!IsStale(top)) Apply(top);
    }
    std::size_t size = 0;
    for (std::uint32_t k = 0; k != kNoSymbol; k = symbols_[k].next)
      word[size++] = symbols_[k].token;
    return size;
  }

 private:
  void Queue(std::uint32_t left) {
    const LinkedSymbol& symbol = symbols_[left];
    const auto merge = merges_.Find(symbol.token.id, symbols_[symbol.next].token.id);
    if (merge.rank != PairTable::kNoMerge) queue_.push({merge.rank, left, merge.merged});
  }

  [[nodiscard]] bool IsStale(const QueuedMerge& queued) const {
    const LinkedSymbol& left = symbols_[queued.left];
    if (left.token.id < 0 || left.next == kNoSymbol) return true;
    return merges_.Find(left.token.id, symbols_[left.next].token.id).merged != queued.merged;
  }

  void Apply(const QueuedMerge& merge) {
    LinkedSymbol& left = symbols_[merge.left];
    LinkedSymbol& right = symbols_[left.next];
    left.token = {merge.merged, left.token.bytes + right.token.bytes};
    right.token.id = -1;
    left.next = right.next;
    if (left.next != kNoSymbol) {
      symbols_[left.next].previous = merge.left;
      Queue(merge.left);
    }
    if (left.previous != kNoSymbol) Queue(left.previous);
  }

  const PairTable& merges_;
  std::vector<LinkedSymbol> symbols_;
  std::priority_queue<QueuedMerge, std::vector<QueuedMerge>, std::greater<>> queue_;
};

// Merges symbols[first..] until no neighbours are a merge; `symbols` shrinks to the tokens. Time is
// quadratic up to kScannedSymbols symbols, and O(n log n) above.
void MergeSymbols(const PairTable& merges, std::size_t first, std::vector<WordToken>& symbols) {
  const std::size_t size = symbols.size() - first;
  if (size < 2) return;
  if (size <= kScannedSymbols) {
    MergeByScanning(merges, first, symbols);
    return;
  }
  WordToken* const word = symbols.data() + first;
  symbols.resize(first + QueuedMerging(merges, word, size).Run(word));
}

}  // namespace

PairTable::PairTable(std::size_t size)
    : slots_(std::bit_ceil(std::max<std::size_t>(2 * size, 2))), mask_(slots_.size() - 1) {}

void PairTable::Insert(TokenId left, TokenId right, Merge merge) {
  CHECK(left >= 0 && right >= 0 && merge.rank != kNoMerge);
  const std::uint64_t key = KeyOf(left, right);
  std::size_t slot = SlotOf(key);
  while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & mask_;
  if (slots_[slot].key == kFree) {
    CHECK(2 * ++used_ <= slots_.size());
    slots_[slot].key = key;
  }
  slots_[slot].merge = merge;
}

BpeModel::BpeModel(TokenizerJson& json, const JsonPart& part, bool byte_level)
    : byte_level_(byte_level), merges_(json.merges.size()) {
  // Files of older releases leave the type out.
  if (part.Text("type", "BPE") != "BPE") part.RefuseField("type", "allowed is BPE");
  part.RequireOff("dropout");
  part.RequireOff("continuing_subword_prefix");
  part.RequireOff("end_of_word_suffix");
  ignore_merges_ = part.Flag("ignore_merges", false);
  byte_fallback_ = part.Flag("byte_fallback", false);
  fuse_unknown_ = part.Flag("fuse_unk", false);
  ReadVocabulary(json, part);
  ReadMerges(json, part);
  if (byte_level_) {
    ReadBytes(part);
  } else {
    ReadFallbacks(part);
  }
  if (!ignore_merges_) return;
  for (const auto& [spelling, id] : ids_) {
    if (!byte_level_) {
      whole_words_.emplace(spelling, id);
    } else if (std::optional<std::string> bytes = BytesOfSpelling(spelling)) {
      whole_words_.emplace(std::move(*bytes), id);
    }
  }
}

void BpeModel::ReadVocabulary(TokenizerJson& json, const JsonPart& part) {
  if (json.vocab.empty()) part.RefuseField("vocab", "it must be a table of tokens and ids");
  TokenId largest = 0;
  for (const auto& [spelling, id] : json.vocab) largest = std::max(largest, id);
  const auto size = static_cast<std::size_t>(largest) + 1;
  if (size > 2 * json.vocab.size() + kUnusedIdsMax) {
    part.Refuse(fmt::format("has the id {} in a vocab of {} tokens; too many ids have no token",
                            largest, json.vocab.size()));
  }
  spellings_.resize(size);
  ids_.reserve(json.vocab.size());
  for (auto& [spelling, id] : json.vocab) {
    std::string& stored = spellings_[static_cast<std::size_t>(id)];
    if (spelling.empty() || spelling.size() > kTokenBytesMax) {
      part.Refuse(fmt::format("has a token of {} bytes with id {}; allowed are 1 to {}",
                              spelling.size(), id, kTokenBytesMax));
    }
    if (!stored.empty()) {
      part.Refuse(fmt::format("gives the id {} to '{}' and '{}'; ids must differ", id,
                              Printable(stored), Printable(spelling)));
    }
    stored = std::move(spelling);
    if (!ids_.emplace(stored, id).second) {
      part.Refuse(fmt::format("has the token '{}' twice", Printable(stored)));
    }
  }
  json.vocab = {};
}

void BpeModel::ReadMerges(TokenizerJson& json, const JsonPart& part) {
  const auto required = [&](const std::string& spelling, std::size_t rank) {
    const std::optional<TokenId> id = Find(spelling);
    if (!id) {
      part.Refuse(fmt::format("needs the token '{}' for merges[{}], but vocab lacks it",
                              Printable(spelling), rank));
    }
    return *id;
  };
  for (std::size_t rank = 0; rank < json.merges.size(); ++rank) {
    const auto& [left, right] = json.merges[rank];
    const TokenId left_id = required(left, rank);
    const TokenId right_id = required(right, rank);
    merges_.Insert(left_id, right_id,
                   {static_cast<std::uint32_t>(rank), required(left + right, rank)});
  }
  json.merges = {};
}

void BpeModel::ReadFallbacks(const JsonPart& part) {
  if (part.Has("unk_token")) {
    unknown_ = Find(part.Text("unk_token"));
    if (!unknown_) part.RefuseField("unk_token", "vocab lacks it");
  }
  if (!byte_fallback_) return;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_.push_back(Find(FallbackToken(static_cast<unsigned char>(byte))).value_or(-1));
  }
}

void BpeModel::ReadBytes(const JsonPart& part) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_.push_back(Find(SpellingOfByte(static_cast<unsigned char>(byte))).value_or(-1));
  }
  const bool complete =
      std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) == byte_tokens_.end();
  if (complete) return;
  if (byte_fallback_) part.RefuseField("byte_fallback", "a byte-level vocab must have all bytes");
  if (part.Has("unk_token")) {
    part.RefuseField("unk_token", "a byte-level vocab with it must have all bytes");
  }
}

const std::string* BpeModel::Spelling(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= spellings_.size()) return nullptr;
  const std::string& spelling = spellings_[static_cast<std::size_t>(id)];
  return spelling.empty() ? nullptr : &spelling;
}

std::optional<TokenId> BpeModel::Find(std::string_view spelling) const {
  const auto found = ids_.find(spelling);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

bool BpeModel::MayCutBefore(std::string_view separator) const {
  // Without a token of its own, a separator could be part of a fused run of unknown characters.
  if (byte_level_ || ignore_merges_ || !Find(separator)) return false;
  return std::none_of(spellings_.begin(), spellings_.end(), [&](const std::string& spelling) {
    bool other_before = false;
    for (std::size_t at = 0; at < spelling.size(); at += CharacterBytes(spelling[at])) {
      const bool is_separator = std::string_view(spelling).substr(at).starts_with(separator);
      if (is_separator && other_before) return true;
      other_before = other_before || !is_separator;
    }
    return false;
  });
}

// Hugging Face tokenizers put an unknown token out when the next known character comes. The bytes
// of characters that fall back in between precede it.
struct BpeModel::PendingUnknown {
  WordToken token{-1, 0};

  void PutOut(std::vector<WordToken>& symbols) {
    if (token.bytes > 0) symbols.push_back(token);
    token.bytes = 0;
  }
};

void BpeModel::AppendCharacters(std::string_view word, std::vector<WordToken>& symbols) const {
  PendingUnknown unknown;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = CharacterBytes(word[at]);
    const std::string_view character = word.substr(at, bytes);
    at += bytes;
    if (const std::optional<TokenId> id = Find(character)) {
      unknown.PutOut(symbols);
      symbols.push_back({*id, static_cast<std::uint32_t>(bytes)});
      continue;
    }
    const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
    if (byte_fallback_ && std::all_of(character.begin(), character.end(),
                                      [&](char byte) { return token_of(byte) >= 0; })) {
      for (const char byte : character) symbols.push_back({token_of(byte), 1});
    } else if (unknown_) {
      if (!fuse_unknown_) unknown.PutOut(symbols);
      unknown.token.id = *unknown_;
      unknown.token.bytes += static_cast<std::uint32_t>(bytes);
    }
  }
  unknown.PutOut(symbols);
}

void BpeModel::AppendSymbols(std::string_view word, std::vector<WordToken>& symbols) const {
  if (!byte_level_) {
    AppendCharacters(word, symbols);
    return;
  }
  for (const char c : word) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(c)];
    if (id >= 0) symbols.push_back({id, 1});
  }
}

void BpeModel::Encode(std::string_view word, std::vector<WordToken>& tokens) const {
  if (ignore_merges_) {
    const auto whole = whole_words_.find(std::string(word));
    if (whole != whole_words_.end()) {
      tokens.push_back({whole->second, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  const std::size_t first = tokens.size();
  AppendSymbols(word, tokens);
  MergeSymbols(merges_, first, tokens);
}

}  // namespace twin::text
