#include "apps/serve/text/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/byte_alphabet.h"
#include "apps/serve/text/merge_symbols.h"
#include "apps/serve/text/utf8.h"
#include "core/check.h"
#include "core/printable.h"

namespace twin::text {

namespace {

constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;
// Ids without a token that a vocabulary may have, beyond as many as it has tokens.
constexpr std::size_t kUnusedIdsMax = std::size_t{1} << 20;

}  // namespace

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

// Hugging Face tokenizers put an unknown token out when the next known character comes, which is
// behind the bytes of characters that fall back in between.
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
