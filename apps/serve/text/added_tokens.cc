#include "apps/serve/text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/characters.h"
#include "apps/serve/text/utf8.h"
#include "core/printable.h"

namespace twin::text {

namespace {

constexpr std::size_t kContentBytesMax = 4096;
constexpr std::size_t kAddedTokensMax = std::size_t{1} << 18;

bool StartsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(CodePointAt(text, 0).value);
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(CodePointAt(text, BeginOfLast(text, 1)).value);
}

// Bytes of white space at the begin and at the end of a text.
std::size_t LeadingSpace(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && IsWhiteSpace(CodePointAt(text, at).value)) {
    at += CharacterBytes(text[at]);
  }
  return at;
}

std::size_t TrailingSpace(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t last = BeginOfLast(text.substr(0, end), 1);
    if (!IsWhiteSpace(CodePointAt(text, last).value)) break;
    end = last;
  }
  return text.size() - end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1), first_bytes_(256, false) {}

void AddedTokenMatcher::Add(std::string_view pattern, const AddedToken& token) {
  std::size_t node = 0;
  for (const char c : pattern) {
    const auto [entry, inserted] =
        nodes_[node].next.try_emplace(static_cast<unsigned char>(c), nodes_.size());
    node = entry->second;
    if (inserted) nodes_.emplace_back();
  }
  if (pattern.empty() || nodes_[node].token != nullptr) return;
  nodes_[node].token = &token;
  first_bytes_[static_cast<unsigned char>(pattern[0])] = true;
}

AddedTokenMatcher::Found AddedTokenMatcher::LongestAt(std::string_view text, std::size_t at) const {
  Found found;
  std::size_t node = 0;
  for (std::size_t k = at; k < text.size(); ++k) {
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[k]));
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    if (nodes_[node].token != nullptr) found = {nodes_[node].token, k + 1 - at};
  }
  return found;
}

std::vector<TextPart> AddedTokenMatcher::Cut(std::string_view text) const {
  std::vector<TextPart> parts;
  std::size_t done = 0;  // the parts so far end here
  for (std::size_t at = 0; at < text.size();) {
    Found found;
    if (first_bytes_[static_cast<unsigned char>(text[at])]) found = LongestAt(text, at);
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + found.bytes;
    at = end;
    if (found.token->single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) {
      continue;
    }
    if (found.token->lstrip) begin = std::max(begin - TrailingSpace(text.substr(0, begin)), done);
    if (found.token->rstrip) end += LeadingSpace(text.substr(end));
    if (done < begin) parts.push_back({{done, begin}, std::nullopt});
    parts.push_back({{begin, end}, found.token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, std::nullopt});
  return parts;
}

AddedTokens::AddedTokens(const JsonPart& file, const BpeModel& model,
                         const Normalizer& normalizer) {
  if (!file.Has("added_tokens")) return;
  const std::vector<JsonPart> parts = file.Objects("added_tokens");
  if (parts.size() > kAddedTokensMax) {
    file.RefuseField("added_tokens", fmt::format("allowed are {}", kAddedTokensMax));
  }
  for (const JsonPart& part : parts) Read(part, model);
  // The matchers borrow the tokens, which do not move from now on. Special tokens are added first,
  // so that one of them is found if two tokens are equal once normalized.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : tokens_) {
      if (token.special != special) continue;
      if (!token.normalized) {
        raw_.Add(token.content, token);
        continue;
      }
      const AlignedText content(token.content, {0, token.content.size()}, /*tracked=*/false);
      normalized_.Add(normalizer.Apply(content).text(), token);
    }
  }
}

void AddedTokens::Read(const JsonPart& part, const BpeModel& model) {
  const bool special = part.Flag("special", false);
  AddedToken token{static_cast<TokenId>(part.Integer("id", kTokenIdMax)),
                   part.Text("content"),
                   part.Flag("single_word", false),
                   part.Flag("lstrip", false),
                   part.Flag("rstrip", false),
                   part.Flag("normalized", !special),
                   special};
  if (token.content.empty()) return;  // found nowhere; Hugging Face tokenizers leave it out too
  if (token.content.size() > kContentBytesMax) {
    part.RefuseField("content", fmt::format("allowed are {} bytes", kContentBytesMax));
  }
  // Hugging Face tokenizers number added tokens themselves. A token that the vocabulary has keeps
  // its id; new tokens are numbered from the vocabulary's size on. A file with other ids would mean
  // other tokens there.
  const std::optional<TokenId> known = model.Find(token.content);
  if (!known) next_id_ = std::max(next_id_, static_cast<TokenId>(model.token_count()));
  const TokenId expected = known ? *known : next_id_;
  if (token.id != expected) {
    part.RefuseField("id", fmt::format("allowed is {}: {}", expected,
                                       known ? "model.vocab has the token with that id"
                                             : "new tokens are numbered without gaps"));
  }
  next_id_ = std::max(next_id_, token.id + 1);
  const std::string* spelling = model.Spelling(token.id);
  if (spelling != nullptr && *spelling != token.content) {
    part.RefuseField(
        "id", fmt::format("model.vocab has '{}' there; ids must differ", Printable(*spelling)));
  }
  if (!by_id_.emplace(token.id, tokens_.size()).second ||
      !by_content_.emplace(token.content, tokens_.size()).second) {
    part.Refuse(fmt::format("repeats the id {} or the content '{}' of another added token",
                            token.id, Printable(token.content)));
  }
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::Find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::Find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace twin::text
