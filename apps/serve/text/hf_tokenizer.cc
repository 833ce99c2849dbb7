#include "apps/serve/text/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "apps/serve/text/byte_alphabet.h"
#include "apps/serve/text/characters.h"
#include "apps/serve/text/split_pattern.h"
#include "apps/serve/text/tokenizer_json.h"
#include "apps/serve/text/utf8.h"
#include "core/input_error.h"

namespace twin::text {

namespace {

constexpr std::string_view kMetaspaceCharacter = "▁";
constexpr std::size_t kTextBytesMax = std::size_t{1} << 30;

template <typename Part>
Part ReadIfPresent(const JsonPart& file, std::string_view field) {
  return file.Has(field) ? Part(file.Object(field)) : Part();
}

JsonPart Checked(const TokenizerJson& json, const std::string& where) {
  JsonPart file(json.rest, where, "");
  if (file.Text("version", "1.0") != "1.0") file.RefuseField("version", "allowed is \"1.0\"");
  if (!file.Has("decoder")) file.RefuseField("decoder", "it is required");
  return file;
}

// Turns spans of bytes of `text` into spans of its characters.
void CountInCharacters(std::string_view text, std::vector<Span>& spans) {
  std::vector<std::size_t> before(text.size() + 1);  // characters that begin before each byte
  for (std::size_t at = 0; at < text.size(); ++at) {
    before[at + 1] = before[at] + (IsContinuation(text[at]) ? 0 : 1);
  }
  for (Span& span : spans) span = {before[span.begin], before[span.end]};
}

class HfDetokenizer : public Detokenizer {
 public:
  HfDetokenizer(const HfTokenizer& tokenizer, const TokenDecoder& decoder,
                DetokenizerOptions options)
      : tokenizer_(tokenizer), options_(options), joiner_(decoder, !options.after_prompt) {}

  std::string Push(TokenId id) override {
    std::string text;
    if (options_.skip_special_tokens && tokenizer_.IsSpecial(id)) return text;
    const std::string* spelling = tokenizer_.SpellingOf(id);
    if (spelling != nullptr) joiner_.Push(*spelling, text);
    return text;
  }

  std::string Finish() override {
    std::string text;
    joiner_.Finish(text);
    return text;
  }

 private:
  const HfTokenizer& tokenizer_;
  DetokenizerOptions options_;
  PieceJoiner joiner_;
};

}  // namespace

// Remembers the tokens of words, because texts repeat words. Belongs to one model and one thread at
// a time. Starts anew when full, which bounds its size and drops words that no longer come.
class HfTokenizer::WordCache {
 public:
  static constexpr std::size_t kWordsMax = 10'000;
  static constexpr std::size_t kWordBytesMax = 256;

  // Appends the tokens of `word` to `tokens`.
  void Encode(const BpeModel& model, std::string_view word, std::vector<WordToken>& tokens);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>()(word);
    }
  };
  std::unordered_map<std::string, std::vector<WordToken>, Hash, std::equal_to<>> words_;
};

void HfTokenizer::WordCache::Encode(const BpeModel& model, std::string_view word,
                                    std::vector<WordToken>& tokens) {
  if (word.size() > kWordBytesMax) {
    model.Encode(word, tokens);
    return;
  }
  const auto known = words_.find(word);
  if (known != words_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  const auto first = static_cast<std::ptrdiff_t>(tokens.size());
  model.Encode(word, tokens);
  if (words_.size() >= kWordsMax) words_.clear();
  words_.emplace(word, std::vector<WordToken>(tokens.begin() + first, tokens.end()));
}

// Encodes one text.
class HfTokenizer::Encoder {
 public:
  Encoder(const HfTokenizer& tokenizer, std::string_view text, bool with_offsets, WordCache& cache)
      : tokenizer_(tokenizer), text_(text), with_offsets_(with_offsets), cache_(cache) {}

  // The result's `characters` are in bytes of the text.
  Encoding Run() {
    const MatchTime limit(text_.size());
    for (const TextPart& part : tokenizer_.added_.raw().Cut(text_)) {
      if (part.token) {
        Add(*part.token, part.span);
      } else {
        EncodePart(tokenizer_.normalizer_.Apply(AlignedText(text_, part.span, with_offsets_)));
      }
    }
    return std::move(result_);
  }

 private:
  void Add(TokenId id, Span origin) {
    result_.ids.push_back(id);
    if (with_offsets_) result_.characters.push_back(origin);
  }

  void EncodePart(AlignedText part) {
    const AddedTokenMatcher& matcher = tokenizer_.added_.normalized();
    if (matcher.empty()) {
      EncodeWords(tokenizer_.pre_tokenizer_.Apply(std::move(part)));
      return;
    }
    for (const TextPart& piece : matcher.Cut(part.text())) {
      if (piece.token) {
        Add(*piece.token, with_offsets_ ? part.OriginOf(piece.span) : Span());
      } else {
        EncodeWords(tokenizer_.pre_tokenizer_.Apply(part.Slice(piece.span)));
      }
    }
  }

  void EncodeWords(const Words& words) {
    for (const Span& span : words.spans) {
      if (tokenizer_.cut_before_.empty()) {
        EncodeWord(words.text, span);
      } else {
        EncodeCut(words.text, span);
      }
    }
  }

  // Cuts before each separator that follows another character.
  void EncodeCut(const AlignedText& text, Span span) {
    const std::string_view separator = tokenizer_.cut_before_;
    const std::string_view word = std::string_view(text.text()).substr(0, span.end);
    std::size_t begin = span.begin;
    std::size_t separators_end = span.begin;
    for (std::size_t at = word.find(separator, begin); at != std::string_view::npos;
         at = word.find(separator, separators_end)) {
      if (at != separators_end) {
        EncodeWord(text, {begin, at});
        begin = at;
      }
      separators_end = at + separator.size();
    }
    EncodeWord(text, {begin, span.end});
  }

  void EncodeWord(const AlignedText& text, Span span) {
    tokens_.clear();
    const auto word = std::string_view(text.text()).substr(span.begin, span.end - span.begin);
    cache_.Encode(tokenizer_.model_, word, tokens_);
    std::size_t at = span.begin;
    for (const WordToken& token : tokens_) {
      const Span bytes{at, at + token.bytes};
      Add(token.id, with_offsets_ ? text.OriginOf(bytes) : Span());
      at = bytes.end;
    }
  }

  const HfTokenizer& tokenizer_;
  std::string_view text_;
  bool with_offsets_;
  WordCache& cache_;
  Encoding result_;
  std::vector<WordToken> tokens_;  // of the current word
};

HfTokenizer::HfTokenizer(TokenizerJson json, const std::string& where)
    : normalizer_(ReadIfPresent<Normalizer>(Checked(json, where), "normalizer")),
      pre_tokenizer_(ReadIfPresent<PreTokenizer>(JsonPart(json.rest, where, ""), "pre_tokenizer")),
      model_(json, JsonPart(json.rest, where, "").Object("model"), pre_tokenizer_.byte_level()),
      added_(JsonPart(json.rest, where, ""), model_, normalizer_),
      post_processor_(
          ReadIfPresent<PostProcessor>(JsonPart(json.rest, where, ""), "post_processor")),
      decoder_(JsonPart(json.rest, where, "").Object("decoder")) {
  const JsonPart file(json.rest, where, "");
  const bool decodes_bytes = decoder_.bytes() == TokenDecoder::Bytes::kByteLevel;
  if (decodes_bytes != pre_tokenizer_.byte_level()) {
    file.Refuse("has ByteLevel in one of pre_tokenizer and decoder; both or none must have it");
  }
  vocabulary_ = model_.size();
  for (const AddedToken& token : added_.tokens()) {
    vocabulary_ = std::max(vocabulary_, static_cast<std::size_t>(token.id) + 1);
  }
  for (std::size_t id = 0; id < vocabulary_; ++id) {
    const std::string* spelling = SpellingOf(static_cast<TokenId>(id));
    if (spelling != nullptr) longest_token_ = std::max(longest_token_, spelling->size());
  }
  for (const auto* ids : {&post_processor_.before(), &post_processor_.after()}) {
    for (const TokenId id : *ids) {
      if (SpellingOf(id) == nullptr) {
        file.RefuseField("post_processor", fmt::format("its id {} has no token", id));
      }
    }
  }
  if (model_.MayCutBefore(kMetaspaceCharacter)) cut_before_ = kMetaspaceCharacter;
}

HfTokenizer::~HfTokenizer() = default;

const std::string* HfTokenizer::SpellingOf(TokenId id) const {
  const AddedToken* added = added_.Find(id);
  return added != nullptr ? &added->content : model_.Spelling(id);
}

std::unique_ptr<HfTokenizer::WordCache> HfTokenizer::BorrowCache() const {
  const std::lock_guard lock(caches_lock_);
  if (caches_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(caches_.back());
  caches_.pop_back();
  return cache;
}

void HfTokenizer::ReturnCache(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard lock(caches_lock_);
  caches_.push_back(std::move(cache));
}

Encoding HfTokenizer::EncodeText(std::string_view text, bool add_special_tokens,
                                 bool with_offsets) const {
  if (text.size() > kTextBytesMax) {
    throw InputError(InputError::Kind::kData, "text",
                     fmt::format("has {} bytes; allowed are {}", text.size(), kTextBytesMax));
  }
  const std::size_t valid = ValidUtf8Bytes(text);
  if (valid != text.size()) {
    throw InputError(InputError::Kind::kData, "text",
                     fmt::format("is not UTF-8 at byte {}", valid));
  }
  std::unique_ptr<WordCache> cache = BorrowCache();
  Encoding encoding = Encoder(*this, text, with_offsets, *cache).Run();
  ReturnCache(std::move(cache));
  if (with_offsets) {
    const std::vector<Span> bytes = encoding.characters;
    CountInCharacters(text, encoding.characters);
    if (post_processor_.trims_offsets()) TrimSpaces(text, bytes, encoding);
  }
  if (!add_special_tokens) return encoding;
  const auto& before = post_processor_.before();
  const auto& after = post_processor_.after();
  encoding.ids.insert(encoding.ids.begin(), before.begin(), before.end());
  encoding.ids.insert(encoding.ids.end(), after.begin(), after.end());
  if (with_offsets) {
    auto& spans = encoding.characters;
    spans.insert(spans.begin(), before.size(), Span());
    spans.insert(spans.end(), after.size(), Span());
  }
  return encoding;
}

void HfTokenizer::TrimSpaces(std::string_view text, const std::vector<Span>& bytes,
                             Encoding& encoding) const {
  const std::string_view space = SpellingOfByte(' ');
  for (std::size_t k = 0; k < encoding.ids.size(); ++k) {
    // The spelling of an added token is the found text with the white space that it took.
    const std::string_view spelling =
        added_.Find(encoding.ids[k]) != nullptr
            ? text.substr(bytes[k].begin, bytes[k].end - bytes[k].begin)
            : std::string_view(*model_.Spelling(encoding.ids[k]));
    std::size_t leading = 0;
    std::size_t trailing = 0;
    bool only_spaces = true;
    for (std::size_t at = 0; at < spelling.size(); at += CharacterBytes(spelling[at])) {
      const bool is_space =
          spelling.substr(at).starts_with(space) || IsWhiteSpace(CodePointAt(spelling, at).value);
      trailing = is_space ? trailing + 1 : 0;
      only_spaces = only_spaces && is_space;
      if (only_spaces) ++leading;
    }
    Span& span = encoding.characters[k];
    const bool is_first = k == 0 || span.begin == 0;
    if (is_first && post_processor_.keeps_first_space()) leading = 0;
    span.begin = std::min(span.begin + leading, span.end);
    if (span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
  }
}

std::vector<TokenId> HfTokenizer::Encode(std::string_view text, bool add_special_tokens) const {
  return EncodeText(text, add_special_tokens, /*with_offsets=*/false).ids;
}

Encoding HfTokenizer::EncodeWithOffsets(std::string_view text, bool add_special_tokens) const {
  return EncodeText(text, add_special_tokens, /*with_offsets=*/true);
}

std::unique_ptr<Detokenizer> HfTokenizer::NewDetokenizer(DetokenizerOptions options) const {
  return std::make_unique<HfDetokenizer>(*this, decoder_, options);
}

std::optional<std::string> HfTokenizer::TokenSpelling(TokenId id) const {
  const std::string* spelling = SpellingOf(id);
  return spelling == nullptr ? std::nullopt : std::optional(*spelling);
}

std::optional<TokenId> HfTokenizer::FindToken(std::string_view spelling) const {
  const AddedToken* added = added_.Find(spelling);
  return added != nullptr ? std::optional(added->id) : model_.Find(spelling);
}

bool HfTokenizer::IsSpecial(TokenId id) const {
  const AddedToken* added = added_.Find(id);
  return added != nullptr && added->special;
}

}  // namespace twin::text
